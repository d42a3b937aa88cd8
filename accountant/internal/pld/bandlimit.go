package pld

import (
	"math"
	"slices"
)

// bandLimiter finds the frequency up to which a characteristic function must be evaluated.
type bandLimiter struct {
	*characteristicFunction
	modulusBounds [][3]modulusBound // of each event, around its quartiles
}

func newBandLimiter(s *characteristicFunction) bandLimiter {
	r := bandLimiter{s, make([][3]modulusBound, len(s.events))}
	for i, e := range s.events {
		r.modulusBounds[i] = [3]modulusBound{newModulusBound(e, 0.25), newModulusBound(e, 0.5), newModulusBound(e, 0.75)}
	}
	return r
}

// frequencyRatio is the ratio of the ends of the frequency intervals over which a
// characteristic function is bounded.
const frequencyRatio = 1.2

// bandLimit returns a frequency above which the multiples of step add at most enough to a
// sum, and a bound of what they add. It starts at a frequency where the blur alone ensures
// this, and decreases it as far as the characteristic function allows.
func (r bandLimiter) bandLimit(step, blur, enough float64) (frequency, rest float64) {
	quiet := 2.0             // the blur has the factor e^-quiet at the top
	left := func() float64 { // Σ above the top of e^(-blur·ω²/2)/ω²
		return math.Exp(-quiet) / (math.Pi * 2 * quiet * math.Sqrt(2*quiet/blur))
	}
	for left() > enough/2 {
		quiet++
	}
	frequency, rest = math.Sqrt(2*quiet/blur), left()
	for frequency > step {
		below := frequency / frequencyRatio
		grow := -(blur + r.gaussianVariance) * below * below / 2
		for i := range r.modulusBounds {
			least := 0.0
			for k := range r.modulusBounds[i] {
				least = min(least, r.modulusBounds[i][k].logBound(below, frequency))
			}
			grow += least
		}
		size, _ := kernelTransform(r.tilt, below)
		more := math.Exp(grow) * size * (frequency - below + step) / math.Pi
		if rest+more > enough {
			break
		}
		frequency, rest = below, rest+more
	}
	return frequency, rest * (1 + 1e-9) // the terms are correct to 1e-10
}

// modulusBound bounds the characteristic function φ of an event from the points near one
// point: |φ(ω)|² is the mean of cos(ω(x - x')) over pairs of points, which is at
// most 1 - c·(ω(x - x'))² for near pairs and at most 1 for others.
type modulusBound struct {
	repeatedEstimate
	middle       int
	below, above []moments // of the first points on each side of the middle
}

// moments are Σ mass, Σ mass·x and Σ mass·x², where x is from the middle.
type moments [3]float64

func newModulusBound(e repeatedEstimate, quantile float64) modulusBound {
	b := modulusBound{repeatedEstimate: e}
	for sum := e.mass[0]; sum < quantile && b.middle < len(e.mass)-1; sum += e.mass[b.middle] {
		b.middle++
	}
	sums := make([]moments, len(e.mass)+2)
	b.below, b.above = sums[:b.middle+1], sums[b.middle+1:]
	with := func(m moments, i int) moments {
		x := e.loss[i] - e.loss[b.middle]
		return moments{m[0] + e.mass[i], m[1] + e.mass[i]*x, m[2] + e.mass[i]*x*x}
	}
	for i := 1; i < len(b.below); i++ {
		b.below[i] = with(b.below[i-1], b.middle-i)
	}
	for i := 1; i < len(b.above); i++ {
		b.above[i] = with(b.above[i-1], b.middle+i-1)
	}
	return b
}

// logBound is an upper bound of count·log|φ| at all frequencies in the interval.
func (b *modulusBound) logBound(from, to float64) float64 {
	largest := 0.0
	centre := b.loss[b.middle]
	for _, angle := range [3]float64{math.Pi / 4, math.Pi / 2, math.Pi} {
		first, _ := slices.BinarySearch(b.loss, centre-angle/to/2)
		end, _ := slices.BinarySearch(b.loss, centre+angle/to/2)
		// The sums of at most 1e4 points are correct to 1.2e-12, their products to 4e-12.
		// Rounding may change the order of points; the indices must stay in range.
		left, right := b.below[max(0, b.middle-first)], b.above[max(0, end-b.middle)]
		mass, one, two := left[0]+right[0], left[1]+right[1], left[2]+right[2]
		c := (1 - math.Cos(angle)) / (angle * angle)
		largest = max(largest, 2*c*from*from*(mass*two-one*one-1e-11*mass*two))
	}
	return b.count / 2 * math.Log1p(-min(largest, 1-1e-9))
}
