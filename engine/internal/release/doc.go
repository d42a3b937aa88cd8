// Package release adds up what records contribute on the host, bounds it, and releases it with noise:
// statistics, counts behind adaptive bounds, validations, vectors of the caller, changes of local steps,
// and the second moments of a projection. A device adds and releases gradients in the same way.
//
//	vector of a record ──▶ Sum.Add ──▶ integers of norm at most the lattice   checked in integers
//	                                     │  added up, exactly
//	ledger line on disk ─────────────────┤
//	                                     ▼
//	                       Sum.Release ──▶ integers + rounded Gaussian noise, times S/lattice
//
// A [Sum] belongs to one query of the ledger, and its promise is the mechanism that the query states.
// [Vectors] are the sums of groups of vectors, each group with a clip factor. [Streams] numbers the
// streams of noise of a step, so that no two releases share one.
package release
