// Package engine trains networks with differential privacy. It connects what is trained (perexample,
// models), the mechanism that protects records (clip, noise) and the accounting of its cost
// (accountant), which do not depend on each other.
//
// [New] starts a run and [Resume] continues one from a checkpoint. [Run.Train] runs lots. An
// [Evaluator] computes predictions and scores. [Config.CalibrateNoise] and [Config.PlannedHistory] compute noise
// and cost before a run. [VectorSum] releases sums of the caller's vectors without a network. The
// folder examples has programs.
//
// # The idea
//
// DP-SGD (Abadi et al. 2016) bounds what one record can change in a step, and hides what remains.
// Lot t is a random sample of the records; each record's gradient g_r is shortened to the norm C,
// and the sum gets noise that is z times as large as the most that a record can change. With plain
// SGD:
//
//	w ← w − η·( Σ_{r in lot} c_r·g_r + N(0, (z·C)²·I) ) / (q·N)      c_r ≤ C/‖g_r‖
//
// The divisor is the public expected lot q·N and not the lot's size. The ε that the lots cost
// together follows from z, from the sampling and from the number of lots; it does not depend on the
// data.
//
// # One lot
//
// This is Run.runLot (run.go); package lot sums and releases:
//
//	records ── sampler ──▶ lot of about q·N records                         package sample
//	   │
//	   │  for each microbatch of a fixed shape; the last one is padded
//	   ▼
//	load.Loader ───────▶ columns, augmentation, mask seeds, random words
//	Forward ───────────▶ losses, ‖g_r‖² of each parameter                   device: program's Front
//	release.Mechanism ─▶ clip factors c_r of each group                     package clip
//	lot.Statistics ────▶ vectors of private statistics, clipped
//	AddClippedSums ────▶ sum += Σ_r c_r·g_r                                 device: program's Back
//	   │
//	   ▼  after the lot's last microbatch
//	account.Account ───▶ ledger line on disk, and the budget                package ledger
//	   │                 an error here ends the run: nothing of this lot was released
//	   ▼
//	Release ───────────▶ sum + noise, times 1/(q·N), optimizer, weights     device, package noise
//	release.Sums ──────▶ counts behind adaptive bounds, statistics, running statistics
//	   │
//	   ▼
//	observer, then a checkpoint
//
// The ledger line comes before everything that is computed from the noised sums, so that a crash at
// any point leaves a ledger that states at least what was released. A lot that fails ends the run
// (Run.fault): a second attempt would draw the same noise again.
//
// # Ways to compute a lot
//
// One interface, lot.Method, has an implementation in each file of internal/lot; the run writes the ledger.
//
//   - The host computes clip factors, microbatch by microbatch, as above.
//   - A device that computes clip factors itself runs a pipeline: microbatches are queued and nothing
//     returns before the end of the lot.
//   - With LocalTraining, a record is a user who takes several steps from the lot's weights, and the
//     change of the weights takes the place of the gradient.
//   - Outputs of frozen first layers are computed once and read by every lot (package frozen).
//   - The caller of a [VectorSum] adds the vectors of each record.
//
// Directions of a [Projection] are released before the first lot (projection.go).
//
// # Guarantee
//
// With [ExactArithmetic], the default where the device has it, every release is a sum of integers
// whose norms are checked in integers, with correctly rounded Gaussian noise, and the guarantee
// holds for the released bits. With [FloatArithmetic] it is proved over the reals. docs/guarantee.md
// has the proof and what it assumes; [Run] states what the guarantee covers.
//
// # Where each part lives
//
//   - config.go, mechanism.go, sampling.go, optimization.go: [Config]. run.go: the life of a run.
//   - internal/network, compile.go, device.go: the program on a device.
//   - internal/lot: the ways to compute a lot.
//   - internal/load: from records to microbatches: index of records, loader, views, division of a set.
//   - internal/release: bounds and noise of each lot, its ledger entry, and the list of everything that is
//     released beside gradients.
//   - releases.go: the list for a [Config]. statistic.go, batch_norm.go, validation.go, projection.go,
//     adaptive.go: what is on it.
//   - ranks.go: runs that several processes compute together.
//   - internal/account, account.go, planned_history.go: the ledger, the budget and the planned cost.
//   - internal/state, fingerprint.go, resume.go: continuing a run. A checkpoint has no key: a
//     resumed run draws with a fresh one.
package engine
