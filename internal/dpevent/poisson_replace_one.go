package dpevent

import "math"

// A record replaced in a Poisson lot of Gaussian noise. The lot releases from a mixture
// of (1-q)·N(m) and q·N(m + g) with one record, of (1-q)·N(m) and q·N(m + h) with the
// other, where m is the sum of the others that were drawn, and g and h, in units of the
// noise, are no longer than a = S/σ. The worst pair is the one on a line with g = a and
// h = -a, at every ε at once, so it may stand for each lot of an adaptive composition
// (Zhu, Dong and Wang 2022, theorem 10):
//
// The hockey-stick divergence is jointly convex, so one m is the worst. For e^ε ≥ 1 it is
// the most, over all sets A of outputs, of
//
//	q·N(m+g)(A) - (e^ε - 1)(1-q)·N(m)(A) - e^ε·q·N(m+h)(A).
//
// Among the sets with N(m)(A) = Φ(t), the first is at most q·Φ(t + a) and the last at least
// e^ε·q·Φ(t - a) (Neyman and Pearson), and on the line half-lines reach both. For e^ε < 1
// change the two places. Of two pairs, the one of the larger q and the larger a dominates:
// the less sampled is a mixture of the other and of what is the same for both records.

// PoissonReplaceOne is the dominating pair of such a lot: (1-q)·N(0) + q·N(a) against
// (1-q)·N(0) + q·N(-a), on the line.
type PoissonReplaceOne struct{ Rate, Shift float64 }

// IsPoissonReplaceOne reports whether e is a subsampled Poisson lot with Gaussian noise
// alone, in which a record is replaced.
func (e Event) IsPoissonReplaceOne() bool {
	return e.Subsampled() && e.ReplaceOne && !e.FixedSize && e.GaussianOnly()
}

// logMixture is log(1 + rate·(e^y - 1)) where e^y is a number.
func (p PoissonReplaceOne) logMixture(y float64) float64 { return math.Log1p(p.Rate * math.Expm1(y)) }

// LogBase is the logarithm of the density of the mixture with -a relative to N(0), where
// y is the log-likelihood ratio of N(a) to N(0).
func (p PoissonReplaceOne) LogBase(y float64) float64 {
	return p.logMixture(-y - p.Shift*p.Shift)
}

// LikelihoodRatio is r-1 and log r, where r is the likelihood ratio of the pair and y the
// log-likelihood ratio of N(a) to N(0).
func (p PoissonReplaceOne) LikelihoodRatio(y float64) (excess, logRatio float64) {
	base := p.LogBase(y)
	if y > 600 {
		return math.Inf(1), y + math.Log(p.Rate) - base
	}
	logRatio = math.Log1p(p.Rate*math.Expm1(y)) - base
	return math.Expm1(logRatio), logRatio
}
