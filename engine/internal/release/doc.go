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
// A statistic can also be a part of a group of gradients: joint clipping (McMahan et al. 2019, section 3.3).
// Its vector m is divided by a scale a and clipped together with the gradients g, also divided by their
// scales s, and both are multiplied again:
//
//	c·√(Σ ‖g_v‖²/s_v² + ‖m‖²/a²) ≤ S      one clip factor c, one bound, one query
//
// Its entry has no query of its own, so it costs nothing more. [Mechanism.AddJoint] adds it before the
// gradients, whose integers get what its squared norm leaves of the lattice.
//
// What the ledger states, what is planned, and which stream of noise a release has follow from the list.
package release
