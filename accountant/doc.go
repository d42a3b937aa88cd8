// Package accountant computes the (ε, δ) that the lots of a privacy ledger cost, and calibrates
// noise, sampling rate, steps or δ to a target.
//
// Its only input is a [ledger.History]. It imports no package that trains, clips or adds noise, so a
// bug there cannot change its answer (McMahan et al. 2019, "A General Approach to Adding
// Differential Privacy to Iterative Training Procedures", section 4).
//
// # The idea
//
// One lot releases sums with noise about a random sample of the records. What it can reveal about
// the record in which two data sets differ follows from public numbers alone: the probability q
// that the record is in the lot, and the most that it moves each sum, over that sum's noise. All
// Gaussian groups of a lot together are one Gaussian (accountant/internal/dpevent):
//
//	ledger line      {"sampling": q, "queries": [(S_1, σ_1), (S_2, σ_2), …]}
//	event of a lot   rate q,  shift µ = √(Σ_g (S_g/σ_g)²)
//	privacy loss     L = ln(P/Q)  with, for example,  P = (1−q)·N(0,1) + q·N(µ,1),  Q = N(0,1)
//	after T lots     δ(ε) = E[(1 − e^(ε−L_1−…−L_T))⁺],   and ε at δ is its inverse
//
// An accountant is a method to bound the last line. They are compared by name ([Names]):
//
//	pld       composes the distribution of L numerically, with two-sided bounds   accountant/internal/pld
//	rdp       adds Rényi divergences of L and converts them                       accountant/internal/rdp
//	moments   rdp with the conversion of Abadi et al. 2016
//	gdp       the central limit of Gaussian differential privacy: an approximation
//	tcdp      zcdp with amplification by sampling (Bun et al. 2018)               accountant/internal/composition
//	zcdp, strong, naive   closed forms of composition                            accountant/internal/composition
//
// # Where each part lives
//
//   - guarantee.go: [Epsilon], [Delta] and [Guarantee], the answer with its restrictions.
//     composition.go: [Composition] shares work between several answers about one history.
//   - accountants.go: the table above; fixed_size.go: lots of a fixed size; shuffle.go: shuffled
//     lots, which count as one release a pass; max_lot.go: the default size of truncated lots.
//   - plan.go, calibrate.go: a [Plan] before a run, and the noise, rate, steps or δ that meet a
//     target. meter.go: the ε during a run of equal lots.
//   - filter.go, odometer.go: lots that are chosen from earlier releases. A [Filter] enforces an ε
//     that was fixed in advance; an [Odometer] bounds the loss at a time chosen later.
//   - selection.go: the cost of choosing the best of several runs.
//   - trade_off.go: error rates of every attack on one record.
package accountant
