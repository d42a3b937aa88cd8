package dpevent

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

// PoissonReplaceOne is the dominating pair of such a lot, for a shift of a.
func PoissonReplaceOne(rate, shift float64) MixturePair {
	return MixturePair{rate, shift, -shift}
}

// IsPoissonReplaceOne reports whether e is a subsampled Poisson lot with Gaussian noise
// alone, in which a record is replaced.
func (e Event) IsPoissonReplaceOne() bool {
	return e.Subsampled() && e.ReplaceOne && !e.FixedSize && e.GaussianOnly()
}
