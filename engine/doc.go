// Package engine trains networks with differential privacy. A [Run] samples lots, feeds their
// microbatches to a compiled program, writes the ledger, releases noised sums and updates the
// weights. It connects what is trained (perexample, models), the mechanism that protects records
// (clip, noise) and the accounting of its cost (accountant), which do not depend on each other.
//
// With [ExactArithmetic], the default where the device has it, every release is a sum of integers
// whose norms are checked in integers, with correctly rounded Gaussian noise, and the guarantee
// holds for the released bits. With [FloatArithmetic] it is proved over the reals.
// docs/guarantee.md has the proof and what it assumes.
//
// [New] starts a run and [Resume] continues one from a checkpoint. An [Evaluator] computes
// predictions and scores. [CalibrateNoise] and [PlannedHistory] compute noise and cost before a run.
package engine
