package accountant

import (
	"math"
	"slices"
)

// reach finds how far up the frequencies of a spectrum must be known.
type reach struct {
	*spectrum
	bulks []bulk
}

func newReach(s *spectrum) reach {
	r := reach{s, make([]bulk, len(s.events))}
	for i, e := range s.events {
		r.bulks[i] = newBulk(e)
	}
	return r
}

// ladder is the ratio of the ends of an interval of frequencies over which a
// characteristic function is bounded at once.
const ladder = 1.2

// up is a frequency, and a bound on what multiples of step above it add to a sum, which
// is at most enough: it goes from where the blur alone makes that sure down to where the
// spectrum does.
func (r reach) up(step, blur, enough float64) (frequency, rest float64) {
	quiet := 2.0             // e^-quiet is left of the blur at the top
	left := func() float64 { // Σ above the top of e^(-blur·ω²/2)/ω²
		return math.Exp(-quiet) / (math.Pi * 2 * quiet * math.Sqrt(2*quiet/blur))
	}
	for left() > enough/2 {
		quiet++
	}
	frequency, rest = math.Sqrt(2*quiet/blur), left()
	for frequency > step {
		below := frequency / ladder
		grow := -(blur + r.squares) * below * below / 2
		for i := range r.bulks {
			grow += r.bulks[i].bound(below, frequency)
		}
		size, _ := weight(r.tilt, below)
		more := math.Exp(grow) * size * (frequency - below + step) / math.Pi
		if rest+more > enough {
			break
		}
		frequency, rest = below, rest+more
	}
	return frequency, rest
}

// bulk bounds the characteristic function φ of an event from the points around its
// median alone: |φ(ω)|² is the mean of cos(ω(x - x')) over pairs of points, which is at
// most 1 - c·(ω(x - x'))² for those that are not far apart, and at most 1 for others.
type bulk struct {
	repeated
	median       int
	below, above []moments // of so many points next to the median, on either side
}

// moments are Σ mass, Σ mass·x and Σ mass·x², where x is from the median.
type moments [3]float64

func newBulk(e repeated) bulk {
	b := bulk{repeated: e, below: make([]moments, 1), above: make([]moments, 1)}
	half := 0.0
	for half < 0.5 && b.median < len(e.mass)-1 {
		half += e.mass[b.median]
		b.median++
	}
	with := func(m moments, i int) moments {
		x := e.loss[i] - e.loss[b.median]
		return moments{m[0] + e.mass[i], m[1] + e.mass[i]*x, m[2] + e.mass[i]*x*x}
	}
	for i := b.median - 1; i >= 0; i-- {
		b.below = append(b.below, with(b.below[len(b.below)-1], i))
	}
	for i := b.median; i < len(e.mass); i++ {
		b.above = append(b.above, with(b.above[len(b.above)-1], i))
	}
	return b
}

// bound is at least count·log|φ| at all frequencies from one to the other.
func (b *bulk) bound(from, to float64) float64 {
	most := 0.0
	middle := b.loss[b.median]
	for _, angle := range [3]float64{math.Pi / 4, math.Pi / 2, math.Pi} {
		first, _ := slices.BinarySearch(b.loss, middle-angle/to/2)
		end, _ := slices.BinarySearch(b.loss, middle+angle/to/2)
		left, right := b.below[b.median-first], b.above[end-b.median]
		mass, one, two := left[0]+right[0], left[1]+right[1], left[2]+right[2]
		c := (1 - math.Cos(angle)) / (angle * angle)
		most = max(most, 2*c*from*from*(mass*two-one*one-1e-12*mass*two))
	}
	return b.count / 2 * math.Log1p(-min(most, 1-1e-9))
}
