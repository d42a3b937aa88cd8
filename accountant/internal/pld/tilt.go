package pld

import (
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant/internal/numerics"
)

// Loss distributions are exponentially tilted: each probability is multiplied by
// e^(tilt·loss), and all are divided by their sum. Composition commutes with tilting. With a
// tilt near the saddle point, the centre of the tilted distribution is at the losses that
// determine the result. Windows are therefore narrow, and the errors of rounding and
// truncation, which are relative to the centre, stay far below δ even if δ is very small.

// tiltedCumulants are log Σ P·e^(tilt·loss) and its first two derivatives with respect to the
// tilt. Terms below e^cut are omitted.
type tiltedCumulants struct {
	logSum, mean, variance float64
	cut                    float64
}

// probability is the tilted probability of a sample.
func (c *tiltedCumulants) probability(at lossSample, tilt float64) float64 {
	return math.Exp(at.logP + tilt*at.loss - c.logSum)
}

// lossSample is a quadrature node of the continuous part or an atom.
type lossSample struct{ x, loss, logP float64 }

// coordinate is the x of base loss y. It is NaN without a continuous part.
func (p *lossPair) coordinate(y float64) float64 {
	if !p.continuous {
		return math.NaN()
	}
	return (y - p.offset) / p.slope
}

// samples samples p with a resolution sufficient for its cumulants at any tilt.
func (p *lossPair) samples() []lossSample {
	var list []lossSample
	add := func(x, y, logQ float64) {
		_, l := p.likelihoodRatio(y)
		if p.direction == addRecord {
			list = append(list, lossSample{x, -l, logQ})
			return
		}
		if p.direction == removeRecord || l > 0 {
			list = append(list, lossSample{x, l, logQ + l})
		}
		if p.direction == bothDirections && l > 0 {
			list = append(list, lossSample{x, -l, logQ})
		}
	}
	panels := p.panels()
	for i := 1; i < len(panels); i++ {
		half := (panels[i] - panels[i-1]) / 2
		for k, node := range numerics.Nodes {
			x := panels[i-1] + half*(1+node)
			add(x, p.slope*x+p.offset, p.logDensity(x)+math.Log(half*numerics.Weights[k]))
		}
	}
	for _, end := range [2]float64{p.from, p.to} { // has no probability; it is the end of a cell
		if p.continuous && !math.IsInf(end, 0) {
			add(end, p.slope*end+p.offset, math.Inf(-1))
		}
	}
	for _, a := range p.atoms {
		add(p.coordinate(a.y), a.y, a.logQ)
	}
	if p.direction == bothDirections {
		probability, _ := p.zeroLossProbability(p.atoms)
		list = append(list, lossSample{p.zeroCoordinate(), 0, math.Log(probability)})
	}
	return list
}

// panels divides the continuous part that was not truncated. At the end of the smallest losses
// it omits probabilities below e^-80.
func (p *lossPair) panels() []float64 {
	switch {
	case !p.continuous:
		return nil
	case !p.gaussian: // finer towards both ends, where a tilt concentrates the mass
		panels := []float64{(p.from + p.to) / 2}
		for width := (p.to - p.from) / 4; width > (p.to-p.from)*1e-9; width /= 2 {
			panels = append(panels, p.from+width, p.to-width)
		}
		panels = append(panels, p.from, p.to)
		slices.Sort(panels)
		return panels
	}
	const reach = 13
	from, to := p.from, p.to
	if math.IsInf(from, -1) {
		from = -reach
	}
	if math.IsInf(to, 1) {
		to = reach + p.slope
	}
	if p.direction == bothDirections {
		from = p.zeroCoordinate()
	}
	n := math.Ceil(min(8000, (to-from)/min(1.25, 2/p.slope)))
	panels := make([]float64, int(n)+1)
	for i := range panels {
		panels[i] = from + (to-from)*float64(i)/n
	}
	return panels
}

// evaluate computes the cumulants of the samples. It omits terms below threshold times the
// largest term.
func (c *tiltedCumulants) evaluate(list []lossSample, tilt, threshold float64) {
	largest := math.Inf(-1)
	for i := range list {
		largest = max(largest, list[i].logP+tilt*list[i].loss)
	}
	cut := largest + math.Log(threshold)
	sum, first, second := 0.0, 0.0, 0.0
	reference := math.NaN()
	*c = tiltedCumulants{cut: cut}
	for i := range list {
		w := list[i].logP + tilt*list[i].loss
		if w < cut {
			continue
		}
		if math.IsNaN(reference) {
			reference = list[i].loss
		}
		w = math.Exp(w - largest)
		d := list[i].loss - reference
		sum += w
		first += w * d
		second += w * d * d
	}
	c.logSum = largest + math.Log(sum)
	mean := first / sum
	c.mean = reference + mean
	c.variance = max(0, second/sum-mean*mean)
}

// compositionCumulants computes the cumulants of a composition.
type compositionCumulants struct {
	counts   []float64
	samples  [][]lossSample
	retained logRetained
}

func (w *compositionCumulants) at(tilt float64) (logSum, mean, variance float64) {
	var c tiltedCumulants
	for i := range w.samples {
		c.evaluate(w.samples[i], tilt, 1e-20)
		logSum += w.counts[i] * c.logSum
		mean += w.counts[i] * c.mean
		variance += w.counts[i] * c.variance
	}
	return logSum, mean, variance
}

const (
	minTilt = 1e-9
	maxTilt = 1e12
)

// tiltForDelta is half of the tilt at which the saddle-point estimate of δ at the
// tilted mean loss is delta. It affects accuracy, not validity. The full tilt would give
// losses of probability 1e-6 of a sampled step as much weight as all others; with half of
// it errors are still far below δ.
func (w *compositionCumulants) tiltForDelta(logDelta float64) float64 {
	return 0.5 * w.searchTilt(func(tilt, logSum, mean, variance float64) bool {
		return tilt*mean-logSum+math.Log(saddlePointDivisor(tilt, variance)) < -logDelta
	})
}

// tiltForEpsilon is half of the tilt whose mean loss is epsilon.
func (w *compositionCumulants) tiltForEpsilon(epsilon float64) float64 {
	return 0.5 * w.searchTilt(func(_, _, mean, _ float64) bool { return mean < epsilon })
}

// logDelta is the saddle-point estimate of log δ at epsilon, for half of the tilt, including
// the losses that were cut off.
func (w *compositionCumulants) logDelta(half, epsilon float64) float64 {
	tilt := 2 * half
	logSum, mean, variance := w.at(tilt)
	estimate := min(0, logSum-tilt*max(epsilon, mean)) - math.Log(saddlePointDivisor(tilt, variance))
	cutOff, _ := w.retained.cutOffDivergence(epsilon, 0, 0)
	return math.Log(math.Exp(estimate) + max(cutOff, 1e-300))
}

// saddlePointDivisor is the divisor of the saddle-point estimate.
func saddlePointDivisor(tilt, variance float64) float64 {
	return max(1, tilt*(1+tilt)*math.Sqrt(2*math.Pi*variance))
}

// searchTilt finds where the predicate more becomes false, to a few per cent. It avoids tilts
// that hardly change the distribution, because Fourier sums would then need a long period,
// and tilts beyond the one that concentrates a bounded loss at its maximum.
func (w *compositionCumulants) searchTilt(more func(tilt, logSum, mean, variance float64) bool) float64 {
	start, mean, variance := w.at(0)
	deviation := max(math.Sqrt(variance), 1e-6*math.Abs(mean), 1e-100)
	below := func(tilt float64) bool {
		logSum, mean, variance := w.at(tilt)
		reach, first := tilt*math.Sqrt(variance), tilt*deviation
		moved := tilt*mean - logSum + start // divergence from the untilted distribution
		switch {
		case reach < 1 && first < 1 && moved < 0.5:
			return true
		case reach < 0.3 && (first > 3 || moved > 0.3):
			return false
		}
		return more(tilt, logSum, mean, variance)
	}
	low, high := 0.0, 4.0
	for below(high) {
		low, high = high, 4*high
		if high > maxTilt {
			return low
		}
	}
	for low == 0 {
		if below(high / 4) {
			low = high / 4
		} else if high /= 4; high < minTilt {
			return high
		}
	}
	for high > 1.05*low {
		if middle := math.Sqrt(low * high); below(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return math.Sqrt(low * high)
}
