// Package plantest is the conformance suite of devices. The tests of a device call its functions
// with the device's Compile; a device is correct if all of them pass.
//
// # The idea
//
// Every operation of internal/device/op has a reference in float64, in the plainest loops. A trial is an
// operation with random shapes and inputs. The suite lowers it to a program of one instruction,
// runs it on the device, and compares:
//
//	random trial ─┬─▶ op.Operation.Do in float64 ──────────────┐
//	              └─▶ plan.Program ─▶ device ─▶ results ──┴─▶ |difference| ≤ tolerance
//
// That is enough for correct training. Privacy depends on more, which no tolerance covers:
//
//	bits       a record's results have the same bits alone and among other records, also NaN
//	norms      ‖u‖² ≤ (sq + 1e-30)/(1 − 1e-5) for rows chosen to cancel or overflow
//	zero       a record of factor 0 adds nothing, even if its rows are NaN
//	integers   what a record adds to an exact sum has a norm of at most the bound
//	noise      a release has the normals of package noise, and the step of plan.Optimizer
//
// # Where each part lives
//
//   - case.go, cases.go, sequences.go, losses.go: trials of all operations, and what is compared.
//   - operations.go: [Operations]; sums.go: [Sums]; norms.go: [Norms]; private.go: the operations of a
//     private step.
//   - contributions.go, l1_contributions.go: [Contributions], [ContributionBounds],
//     [L1Contributions], for exact programs.
//   - release.go: [Release].
//   - vocabulary_program.go: [VocabularyProgram], for devices that compute large logits some rows at a time.
package plantest
