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
// [Vectors] are the sums of groups of vectors, each group with a clip factor.
//
// A [List] has one [Entry] for everything that a run releases beside gradients: its query, when it is
// released, and what is done with the result. [Sums] are the sums of its entries over a lot:
//
//	entry                  when              use of the result
//	count of each group    every lot         the clip bound
//	statistics             every k-th lot    means for the observer, running statistics
//	validation             after the lots    score of the weights
//	second moments         before the lots   first layer
//
// What the ledger states, what is planned, and which stream of noise a release has follow from the list.
package release
