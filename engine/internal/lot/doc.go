// Package lot computes lots: it adds up what the records of a lot contribute, each bounded, and turns the
// noised sums into a step.
//
//	Sum      sampler ──▶ records, microbatch by microbatch ──▶ Method.Add     bounded contributions
//	           │                                                 │ added up
//	Finish     └──▶ after the last record: the sums are final ◀──┘
//	                 │
//	         (the caller writes the ledger line)
//	                 │
//	Release          ▼
//	           Method.Release ──▶ sums + noise ──▶ optimizer ──▶ weights
//	           release.Sums ────▶ what else the lot releases: bounds, statistics, running statistics
//
// A [Method] is how contributions are computed and added up. Each has a file:
//
//   - gradients.go: a device computes norms and clipped sums, the host clip factors between them.
//   - pipeline.go: a device computes clip factors too; microbatches are queued, and nothing returns before the
//     end of the lot.
//   - frozen.go: as gradients.go, for a program that reads the outputs of frozen first layers, which are
//     computed once.
//   - local.go: a record is a user, and contributes the change of the weights in some steps on its examples.
//   - vectors.go: the caller adds the vectors of each record.
//
// For every method the same holds. A record is added at most once. Its contribution depends on the record
// and on released values only, and its norm is at most the bound that the ledger line states
// ([release.Mechanism]). Nothing is added between Finish and the noise.
package lot
