package dpevent

import "math"

// A record is replaced in a Poisson lot with Gaussian noise. With one record the lot
// releases from the mixture of (1-q)·N(m) and q·N(m + g), with the other record from the
// mixture of (1-q)·N(m) and q·N(m + h). Here m is the sum of the other sampled records, and
// g and h, in units of the noise, are at most a = S/σ long. The dominating pair is the one
// on a line with g = a and h = -a. It dominates at every ε, so it may represent each lot of
// an adaptive composition (Zhu, Dong and Wang 2022, theorem 10):
//
// The hockey-stick divergence is jointly convex, so a single m is the worst case. For
// e^ε ≥ 1 the divergence is the maximum, over all sets A of outputs, of
//
//	q·N(m+g)(A) - (e^ε - 1)(1-q)·N(m)(A) - e^ε·q·N(m+h)(A).
//
// Among the sets with N(m)(A) = Φ(t), the first term is at most q·Φ(t + a) and the last at
// least e^ε·q·Φ(t - a) (Neyman and Pearson). On the line, half-lines attain both. For
// e^ε < 1 exchange the two data sets. Of two such pairs, the one with the larger q and the
// larger a dominates: the less sampled pair is a mixture of the other pair with a component
// that is the same for both records.

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
