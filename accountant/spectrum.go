package accountant

import (
	"math"
	"slices"
)

// A composition multiplies characteristic functions. They are taken of the tilted
// losses at multiples of one frequency, straight from the points of every event, so
// that the cost does not depend on how often an event happened.
//
// The characteristic function of points need not vanish at high frequencies. So the
// composition is composed once more, with a Gaussian mechanism whose loss has a small
// variance v: that is a composition of private mechanisms, so D_v, its hockey-stick
// divergence, is an upper bound of D, and it is cut off at a few multiples of 1/√v.
// By Itô's formula dD_v/dv at ε is half the density of loss + Gaussian at ε, and
// from 0 to v it grows at most by contrast(v) times what it grows from v to 4v, for
// the density p_w(u) of the Gaussian's loss is e^(-u²/2w)·e^(-w/8)/√w up to a factor
// that does not depend on w. So D is at least D_v - contrast(v)·(D_4v - D_v).

// band says at which frequencies: 0, step, …, count·step.
type band struct {
	step  float64
	count int
	blur  float64 // v
}

// period is what sums over the band wrap around: they give Σ over whole k of what is
// asked for at ε + k·period, and none of these is negative.
func (b band) period() float64 { return 2 * math.Pi / b.step }

// contrast is ∫ from 0 to v over ∫ from v to 4v of e^(-w/8)/√w dw.
func contrast(v float64) float64 {
	inner := math.Erf(math.Sqrt(v / 8))
	return inner / (math.Erf(math.Sqrt(v/2)) - inner)
}

// spectrum is the characteristic function of a tilted composition.
type spectrum struct {
	tilt    float64
	events  []repeated
	squares float64 // variance of the loss of the Gaussian mechanisms composed with
	log     float64 // mass·e^(log - tilt·loss) is the untilted chance
	centre  float64 // of the loss
	slack   float64 // mass that is left out, at most
	rough   float64 // logarithm of by how much chances may be wrong, as all are positive
	lost    portion // left out, untilted
	stays   stays
	rises   [4]float64

	band
	rest  float64   // bounds what the frequencies above the band would add
	grow  []float64 // logarithm of the modulus at every frequency of the band
	turn  []float64 // the phase, beyond that of centre
	doubt []float64 // bounds what rounding did to the two
}

// repeated is an event that is composed count times.
type repeated struct {
	twin
	count, centre float64
}

// The moments E e^(s·(loss - centre)) of a spectrum, whose logarithms are its rises,
// at s = tilt·rise: Chernoff's bound on high losses takes the best.
var riseAt = [4]float64{0.25, 0.5, 1, 2}

// addGaussian composes with a Gaussian mechanism of the sum of squares of shifts given.
func (s *spectrum) addGaussian(squares float64) {
	s.squares += squares
	s.log += s.tilt * (s.tilt + 1) * squares / 2
	s.centre += (0.5 + s.tilt) * squares
	for i, rise := range riseAt {
		s.rises[i] += squares * s.tilt * s.tilt * rise * rise / 2
	}
}

// add composes with count times t.
func (s *spectrum) add(t twin, beyond portion, count float64) {
	centre := 0.0
	for i, m := range t.mass {
		centre += m * t.loss[i]
	}
	s.events = append(s.events, repeated{t, count, centre})
	s.log += count * t.log
	s.centre += count * centre
	s.slack += count * t.slack
	s.rough += count * t.rough
	s.stays.times(beyond, count)
	for i, rise := range riseAt {
		sum := 0.0
		for k, m := range t.mass {
			sum += m * math.Expm1(s.tilt*rise*(t.loss[k]-centre))
		}
		s.rises[i] += count * math.Log1p(sum)
	}
}

// weight is the transform of e^(-tu)·(1 - e^(-u)), u > 0, that is 1/((t + iω)(t + 1 + iω)).
func weight(t, frequency float64) (size, phase float64) {
	x, y := t*(t+1)-frequency*frequency, (2*t+1)*frequency
	return 1 / math.Hypot(x, y), -math.Atan2(y, x)
}

// evaluate fills the band.
func (s *spectrum) evaluate(b band, rest float64) {
	s.band, s.rest = b, rest
	n := b.count + 1
	room := make([]float64, 3*n)
	s.grow, s.turn, s.doubt = room[:n:n], room[n:2*n:2*n], room[2*n:]
	for j := range s.grow {
		frequency := s.step * float64(j)
		s.grow[j] = -s.squares * frequency * frequency / 2
	}
	for _, e := range s.events {
		s.multiply(e)
	}
}

// turning is a point: mass·(e^(iωx) - 1) = re + i·im at one frequency ω, and at the
// next what a rotation by 1 + a + ib makes of it.
type turning struct{ a, b, massA, massB, re, im float64 }

func (s *spectrum) multiply(e repeated) {
	const block = 32 // so many points are added up at once, and so often turned before they are set right
	points := make([]turning, len(e.mass))
	spread := 0.0 // E |x|
	for k, m := range e.mass {
		x := e.loss[k] - e.centre
		spread += m * math.Abs(x)
		a, b := turn(s.step * x)
		points[k] = turning{a: a, b: b, massA: m * a, massB: m * b}
	}
	rounding := unit * float64(7*block+len(points)/block+4)
	for j := 1; j <= s.band.count; j++ {
		if j%block == 0 {
			for k, m := range e.mass {
				a, b := turn(s.step * float64(j-1) * (e.loss[k] - e.centre))
				points[k].re, points[k].im = m*a, m*b
			}
		}
		re, im := 0.0, 0.0
		for part := range slices.Chunk(points, block) {
			x, y := advance(part)
			re, im = re+x, im+y
		}
		size := logOf(re, im)
		phase := math.Atan2(im, 1+re)
		s.grow[j] += e.count * size
		s.turn[j] += e.count * phase
		angle := spread * s.step * float64(j)
		wrong := rounding*min(2, angle) + 4*unit*angle
		s.doubt[j] += e.count * (math.Log1p(wrong*math.Exp(-size)) + 4*unit*(math.Abs(size)+math.Abs(phase)))
	}
}

// advance turns points to the next frequency and adds them up.
func advance(points []turning) (re, im float64) {
	for k := range points {
		p := &points[k]
		p.re, p.im = p.re+p.massA+(p.a*p.re-p.b*p.im), p.im+p.massB+(p.a*p.im+p.b*p.re)
		re += p.re
		im += p.im
	}
	return re, im
}

// logOf is log |1 + re + i·im|, with its relative precision near 0 and the absolute
// precision of |1 + re + i·im| where that is small.
func logOf(re, im float64) float64 {
	if square := 2*re + re*re + im*im; square > -0.5 {
		return math.Log1p(square) / 2
	}
	return max(-600, math.Log(math.Hypot(1+re, im)))
}

// turn is e^(i·angle) - 1.
func turn(angle float64) (re, im float64) {
	sin, cos := math.Sincos(angle / 2)
	return -2 * sin * sin, 2 * sin * cos
}

// unit is above the relative rounding of one operation.
const unit = 1.2e-16

// blurred is the hockey-stick divergence of a spectrum composed with a Gaussian.
type blurred struct {
	*spectrum
	variance    float64
	log, centre float64
	re, im      []float64 // what is summed, but for the phase of ε
	off, drift  float64   // how far a sum may be off: off + drift·|ε|
	slack       float64
}

// blurred composes with a Gaussian wide times as wide as the band says.
func (s *spectrum) blurred(wide float64) *blurred {
	t := s.tilt
	variance := s.blur * wide * wide
	b := &blurred{spectrum: s, variance: variance, log: s.log + t*(t+1)*variance/2, centre: s.centre + (0.5+t)*variance}
	b.re, b.im = make([]float64, len(s.grow)), make([]float64, len(s.grow))
	for j := range b.re {
		frequency := s.step * float64(j)
		size, phase := weight(t, frequency)
		grow := s.grow[j] - variance*frequency*frequency/2
		height := math.Exp(grow) * size
		sin, cos := math.Sincos(s.turn[j] + phase)
		b.re[j], b.im[j] = height*cos, height*sin
		b.off += (math.Exp(grow+s.doubt[j])-math.Exp(grow))*size +
			unit*height*(16+8*float64(j)+float64(s.band.count)+4*frequency*math.Abs(b.centre))
		b.drift += unit * height * 4 * frequency
	}
	b.re[0] /= 2
	// A wrong mass at loss x moves δ(ε) by at most the greatest value of
	// e^(-tu)(1 - e^(-u)), in units of e^(log - tilt·ε).
	b.slack = s.slack * peak(t)
	return b
}

// peak is the greatest value of e^(-tu)(1 - e^(-u)).
func peak(t float64) float64 { return math.Exp(t*(math.Log(t)-math.Log1p(t))) / (1 + t) }

// delta is the divergence at epsilon, with all that wraps around, and how far it may
// be off.
func (b *blurred) delta(epsilon float64) (value, off float64) {
	sin, cos := math.Sincos(b.step * (b.centre - epsilon))
	c, s := 1.0, 0.0
	sum := 0.0
	for j, re := range b.re {
		sum += re*c - b.im[j]*s
		c, s = c*cos-s*sin, s*cos+c*sin
	}
	scale := math.Exp(b.log - b.tilt*epsilon)
	off = scale * (b.step/math.Pi*(b.off+b.drift*math.Abs(epsilon)) + b.rest + b.slack)
	return scale * b.step / math.Pi * sum, off
}

// wrapped bounds what delta has from ε ± period, ε ± 2·period, …
func (b *blurred) wrapped(epsilon float64) float64 {
	period := b.period()
	above := math.Inf(1)
	for i, rise := range riseAt {
		s := b.tilt * rise
		moment := b.rises[i] + s*s*b.variance/2
		above = min(above, moment-s*(epsilon+period-b.centre)-math.Log(-math.Expm1(-s*period)))
	}
	return 1/math.Expm1(b.tilt*period) + peak(b.tilt)*math.Exp(b.log-b.tilt*epsilon+above)
}
