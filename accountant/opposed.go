package accountant

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

// opposed tells that an event is such a lot.
func (e event) opposed() bool {
	return e.sampled() && e.replace && !e.fixed && e.pureGaussian()
}

// opposedPair is its pair, in its own words: Q is the mixture on the left. It is its own
// mirror image.
func opposedPair(rate, shift float64) pair {
	p := gaussianPair(shift)
	p.rate, p.opposed = rate, true
	return p
}

// opposite is the base loss at the place of y seen from the other side, where the
// likelihood of the mixture on the left is 1 + rate·(e^opposite - 1) of the Gaussian's.
func (p *pair) opposite(y float64) float64 { return -y - p.slope*p.slope }

// rdpOpposed is the Rényi divergence of the pair,
//
//	1 + ∫ φ(x)·r₋·(r^order - 1 - order·(r - 1)) dx,  r = r₊/r₋,
//
// whose terms are positive.
func rdpOpposed(rate, shift, order float64) float64 {
	p := opposedPair(rate, shift)
	const reach = 13
	from, to := -reach-shift, max(order, 2)*shift+reach
	panels := math.Ceil((to - from) / min(0.5, 0.5/shift))
	if panels > 1e6 {
		return math.Inf(1)
	}
	width := (to - from) / panels
	var all growing
	for panel := 0.0; panel < panels; panel++ {
		for i, node := range legendreNodes {
			x := from + width*(panel+(1+node)/2)
			excess, l := p.ratio(p.slope*x + p.offset)
			log := p.logDensity(x)
			var term float64
			switch grown := order * l; {
			case math.Abs(grown) < 0.01:
				term = powerRemainder(excess, order)
			case grown < 1:
				term = math.Expm1(grown) - order*excess
			default:
				if term = 1; l < 300 { // else the rest is nothing beside it
					term -= (1 + order*excess) * math.Exp(-grown)
				}
				log += grown
			}
			all.hold(log)
			all.sum += legendreWeights[i] * term * math.Exp(log-all.scale)
		}
	}
	return all.divergence(width/2, order)
}
