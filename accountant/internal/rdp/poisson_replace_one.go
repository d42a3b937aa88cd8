package rdp

import (
	"math"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/internal/numerics"
)

const logSqrt2Pi = 0.918938533204672741780329736406

// poissonReplaceOneDivergence is the Rényi divergence of dpevent.PoissonReplaceOne,
//
//	1 + ∫ φ(x)·r₋·(r^order - 1 - order·(r - 1)) dx,  r = r₊/r₋,
//
// whose terms are positive.
func poissonReplaceOneDivergence(rate, shift, order float64) float64 {
	p := dpevent.PoissonReplaceOne(rate, shift)
	offset := -shift * shift / 2
	const reach = 13
	from, to := -reach-shift, max(order, 2)*shift+reach
	panels := math.Ceil((to - from) / min(0.5, 0.5/shift))
	if panels > 1e6 {
		return math.Inf(1)
	}
	width := (to - from) / panels
	var all scaledSum
	for panel := 0.0; panel < panels; panel++ {
		for i, node := range numerics.Nodes {
			x := from + width*(panel+(1+node)/2)
			y := shift*x + offset
			excess, l := p.LikelihoodRatio(y)
			log := -x*x/2 - logSqrt2Pi
			log += p.LogBase(y)
			var term float64
			switch grown := order * l; {
			case math.Abs(grown) < 0.01:
				term = binomialRemainder(excess, order)
			case grown < 1:
				term = math.Expm1(grown) - order*excess
			default:
				if term = 1; l < 300 { // otherwise the other terms are negligible
					term -= (1 + order*excess) * math.Exp(-grown)
				}
				log += grown
			}
			all.rescale(log)
			all.sum += numerics.Weights[i] * term * math.Exp(log-all.logScale)
		}
	}
	return all.divergence(width/2, order)
}
