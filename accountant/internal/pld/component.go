package pld

import (
	"cmp"
	"math"
	"slices"
)

// component is one of the pairs of which the dominating pair of an event is a mixture: the
// release shows which pair it is from. The weights are the probabilities of the pair, for each
// estimate.
type component struct {
	lossPair
	weights [2]float64
}

// tiltedMixture is the tilted components of an event.
type tiltedMixture []tiltedComponent

type tiltedComponent struct {
	tiltedPair
	weights [2]float64
	share   float64 // of the tilted probability of the mixture
}

func tiltComponents(list []component, tilt, threshold float64) tiltedMixture {
	m := make(tiltedMixture, len(list))
	logs := make([]float64, len(list))
	for i, p := range list {
		m[i] = tiltedComponent{tiltPair(p.lossPair, tilt, threshold), p.weights, 1}
		logs[i] = math.Log(p.weights[pessimistic]) + m[i].logSum
	}
	most := slices.Max(logs)
	sum := 0.0
	for i, l := range logs {
		m[i].share = math.Exp(l - most)
		sum += m[i].share
	}
	for i := range m {
		m[i].share /= sum
	}
	return m
}

// discretize discretises the components of an event that occurs count times. The mean square of
// the cell width of a component is unit times the cube root of its expected count times its
// variance, divided by that count.
func (m tiltedMixture) discretize(unit, count, widest float64) discretizedLoss {
	parts := make([]discretizedLoss, len(m))
	for i := range m {
		s := &m[i]
		count := max(count*s.share, 1e-200)
		square := unit * math.Cbrt(count*s.variance) / count
		parts[i] = s.discretize(min(square, maxCellVariance*s.variance), widest)
	}
	if len(m) == 1 {
		return parts[0]
	}
	var mixed discretizedLoss
	for kind := range mixed.estimates {
		estimates, weights := make([]lossEstimate, len(m)), make([]float64, len(m))
		for i := range m {
			estimates[i], weights[i] = parts[i].estimates[kind], m[i].weights[kind]
			mixed.cutOff[kind].addShare(parts[i].cutOff[kind], weights[i])
		}
		mixed.estimates[kind] = mixEstimates(estimates, weights)
	}
	for i, p := range parts {
		mixed.truncated.addShare(p.truncated, m[i].weights[pessimistic])
		mixed.cutOffError = max(mixed.cutOffError, p.cutOffError+8*roundingUnit)
	}
	return mixed
}

// mixEstimates is the estimate of a mixture.
func mixEstimates(parts []lossEstimate, weights []float64) lossEstimate {
	logs := make([]float64, len(parts))
	for i, p := range parts {
		logs[i] = math.Log(weights[i]) + p.logScale
	}
	mixed := lossEstimate{logScale: slices.Max(logs)}
	type point struct{ loss, mass float64 }
	var points []point
	for i, p := range parts {
		share := math.Exp(logs[i] - mixed.logScale)
		if share == 0 {
			continue
		}
		for k, m := range p.mass {
			points = append(points, point{p.loss[k], m * share})
		}
		mixed.missingMass += share * p.missingMass
		mixed.lossError = max(mixed.lossError, p.lossError)
		mixed.relativeError = max(mixed.relativeError, p.relativeError+roundingUnit*(32+4*math.Abs(logs[i])+4*math.Abs(mixed.logScale)))
	}
	slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.loss, b.loss) })
	for _, p := range points {
		mixed.loss, mixed.mass = append(mixed.loss, p.loss), append(mixed.mass, p.mass)
	}
	mixed = mixed.normalised(0)
	mixed.missingMass += 32 * roundingUnit // an error of the sum counts as a mass at the centre
	return mixed
}
