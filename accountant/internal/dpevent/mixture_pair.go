package dpevent

import "math"

// MixturePair is the pair (1-Rate)·N(0) + Rate·N(Far) and (1-Rate)·N(0) + Rate·N(Near), on the
// line. Far is above 0, and Near from -Far to less than Far.
type MixturePair struct{ Rate, Far, Near float64 }

// logMixture is log(1 + rate·(e^y - 1)).
func (p MixturePair) logMixture(y float64) float64 {
	if y > 600 {
		return y + math.Log(p.Rate)
	}
	return math.Log1p(p.Rate * math.Expm1(y))
}

// nearLogRatio is the log-likelihood ratio of N(Near) to N(0) where that of N(Far) to N(0) is y.
func (p MixturePair) nearLogRatio(y float64) float64 {
	return p.Near/p.Far*(y+p.Far*p.Far/2) - p.Near*p.Near/2
}

// LogBase is the logarithm of the density of the second mixture relative to N(0), where y is the
// log-likelihood ratio of N(Far) to N(0).
func (p MixturePair) LogBase(y float64) float64 { return p.logMixture(p.nearLogRatio(y)) }

// LogBaseSlope bounds the absolute value of the derivative of LogBase with respect to y.
func (p MixturePair) LogBaseSlope(y float64) float64 {
	near := p.nearLogRatio(y)
	return min(1, p.Rate*math.Exp(min(700, near-p.logMixture(near))))
}

// LikelihoodRatio is r-1 and log r, where r is the likelihood ratio of the pair and y the
// log-likelihood ratio of N(Far) to N(0).
func (p MixturePair) LikelihoodRatio(y float64) (excess, logRatio float64) {
	logRatio = p.logMixture(y) - p.LogBase(y)
	if y > 600 {
		return math.Inf(1), logRatio
	}
	return math.Expm1(logRatio), logRatio
}

// EqualAt is the point from which on the first mixture has the larger density, if Near is at
// most Far/2.
func (p MixturePair) EqualAt() float64 { return (p.Far + p.Near) / 2 }
