// Package engine trains networks with differential privacy. A [Run] samples lots, feeds their
// microbatches to a compiled program, writes the ledger, releases noised sums and updates the
// weights. It connects what is trained (perexample, models), the mechanism that protects records
// (clip, noise) and the accounting of its cost (accountant), which do not depend on each other.
//
// [New] starts a run and [Resume] continues one from a checkpoint. An [Evaluator] computes
// predictions and scores. [CalibrateNoise] and [PlannedHistory] compute noise and cost before a run.
package engine
