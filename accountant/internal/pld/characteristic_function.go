package pld

import (
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
)

// A composition multiplies characteristic functions. They are evaluated for the tilted losses
// at multiples of one frequency, directly from the points of each event, so the cost does not
// depend on the number of repetitions of an event.
//
// The characteristic function of points need not vanish at high frequencies. The sequence is
// therefore also composed with a Gaussian mechanism whose loss has a small variance v, the
// blur. The result is a composition of private mechanisms, so its hockey-stick divergence D_v
// is an upper bound of D. It is negligible above a few multiples of 1/√v.
// By Itô's formula dD_v/dv at ε is half the density of loss + Gaussian at ε, and
// its growth from 0 to v is at most blurGrowthRatio(v) times its growth from v to 4v, because
// the density p_w(u) of the Gaussian's loss is e^(-u²/2w)·e^(-w/8)/√w up to a factor
// that does not depend on w. So D is at least
// D_v - blurGrowthRatio(v)·(D_4v - D_v).

// frequencyBand is the frequencies 0, step, …, count·step.
type frequencyBand struct {
	step         float64
	count        int
	blurVariance float64 // v
}

// period is the period of sums over the band. They give the sum, over all integers k, of the
// required function at ε + k·period. No term is negative.
func (b frequencyBand) period() float64 { return 2 * math.Pi / b.step }

// blurGrowthRatio is ∫ from 0 to v over ∫ from v to 4v of e^(-w/8)/√w dw.
func blurGrowthRatio(v float64) float64 {
	inner := math.Erf(math.Sqrt(v / 8))
	return inner / (math.Erf(math.Sqrt(v/2)) - inner)
}

// characteristicFunction is the characteristic function of a tilted composition.
type characteristicFunction struct {
	tilt             float64
	events           []repeatedEstimate
	gaussianVariance float64       // variance of the loss of the unsampled Gaussian mechanisms
	logScale         float64       // mass·e^(logScale - tilt·loss) is the untilted probability
	centre           float64       // of the loss
	missingMass      float64       // upper bound of the omitted mass
	logRelativeError float64       // bound of the error of the logarithm of probabilities
	logScaleError    float64       // bound of the rounding error of logScale
	centreError      float64       // bound of the rounding error of centre
	truncated        probabilities // omitted, untilted
	retained         logRetained
	cutOffError      float64 // bound of the relative error of retained
	logMoments       [4]float64

	frequencyBand
	tailBound     float64   // bound of what the frequencies above the band would add
	logModulus    []float64 // logarithm of the modulus at each frequency of the band
	phase         []float64 // phase relative to that of centre
	roundingError []float64 // bound of the modulus of the error of logModulus + i·phase
}

// repeatedEstimate is an estimate that is composed count times.
type repeatedEstimate struct {
	lossEstimate
	count, centre float64
}

// logMoments are the logarithms of the moments E e^(s·(loss - centre)) at s = tilt·factor, for
// these factors. Chernoff's bound on high losses uses the best of them.
var chernoffFactors = [4]float64{0.25, 0.5, 1, 2}

// addGaussian composes with Gaussian mechanisms of the given sum of squared shifts.
func (s *characteristicFunction) addGaussian(squares float64) {
	s.gaussianVariance += squares
	s.addLogScale(s.tilt * (s.tilt + 1) * squares / 2)
	s.addCentre((0.5 + s.tilt) * squares)
	for i, rise := range chernoffFactors {
		s.logMoments[i] += squares * s.tilt * s.tilt * rise * rise / 2
	}
}

// addLogScale adds a term, which has the relative error of at most four operations.
func (s *characteristicFunction) addLogScale(term float64) {
	s.logScale += term
	s.logScaleError += roundingUnit * (4*math.Abs(term) + math.Abs(s.logScale))
}

// addCentre adds a term, which has the relative error of at most four operations.
func (s *characteristicFunction) addCentre(term float64) {
	s.centre += term
	s.centreError += roundingUnit * (4*math.Abs(term) + math.Abs(s.centre))
}

// add composes with count times t.
func (s *characteristicFunction) add(t lossEstimate, cutOff probabilities, count float64) {
	centre := 0.0
	for i, m := range t.mass {
		centre += m * t.loss[i]
	}
	s.events = append(s.events, repeatedEstimate{t, count, centre})
	s.addLogScale(count * t.logScale)
	s.addCentre(count * centre)
	s.missingMass += count * t.missingMass
	s.logRelativeError += count * t.relativeError
	s.retained.addEvent(cutOff, count)
	for i, rise := range chernoffFactors {
		sum := 0.0
		for k, m := range t.mass {
			sum += m * math.Expm1(s.tilt*rise*(t.loss[k]-centre))
		}
		s.logMoments[i] += count * math.Log1p(sum)
	}
}

// kernelTransform is the transform of e^(-tu)·(1 - e^(-u)), u > 0, that is 1/((t + iω)(t + 1 + iω)).
func kernelTransform(t, frequency float64) (size, phase float64) {
	x, y := t*(t+1)-frequency*frequency, (2*t+1)*frequency
	return 1 / math.Hypot(x, y), -math.Atan2(y, x)
}

// evaluate evaluates the function at the frequencies of the band.
func (s *characteristicFunction) evaluate(b frequencyBand, rest float64) {
	s.frequencyBand, s.tailBound = b, rest
	n := b.count + 1
	memory := make([]float64, 3*n)
	s.logModulus, s.phase, s.roundingError = memory[:n:n], memory[n:2*n:2*n], memory[2*n:]
	for j := range s.logModulus {
		frequency := s.step * float64(j)
		s.logModulus[j] = -s.gaussianVariance * frequency * frequency / 2
		s.roundingError[j] = -roundingUnit * 8 * s.logModulus[j]
	}
	for _, e := range s.events {
		s.multiply(e)
	}
}

// rotatingPoint is the term mass·(e^(iωx) - 1) = re + i·im of a point at one frequency ω. The
// term at the next frequency results from a rotation by 1 + a + ib.
type rotatingPoint struct{ a, b, massA, massB, re, im float64 }

func (s *characteristicFunction) multiply(e repeatedEstimate) {
	const block = 32 // points added at once, and rotations between exact evaluations
	points := make([]rotatingPoint, len(e.mass))
	spread := 0.0 // E |x|
	for k, m := range e.mass {
		x := e.loss[k] - e.centre
		spread += m * math.Abs(x)
		a, b := expMinusOne(s.step * x)
		points[k] = rotatingPoint{a: a, b: b, massA: m * a, massB: m * b}
	}
	// The error of the sum of z = mass·(e^(iωx) - 1), relative to B = mass·min(2, |ωx|):
	//   - 8 units for each of up to block rotations: z and z + mass·w are at most B, the products
	//     of z and w = a + ib at most 2B, and each operation is correct to one unit;
	//   - 40 units for each rotation from w itself, whose relative error is below 12 units
	//     (sine and cosine are correct to two units, products of three factors follow);
	//   - one unit for each addition to the sum of a block and of all blocks;
	//   - 16 units for |1 + z|², of which the logarithm is taken.
	// An error of x, of the frequency or of an angle moves a term by at most mass·|ωx| times its
	// relative size, and there are at most six.
	rounding := roundingUnit * float64((8+40+1)*block+len(points)/block+32)
	logs := roundingUnit * float64(16+len(s.events)) // of logarithms, products with count and sums over events
	for j := 1; j <= s.frequencyBand.count; j++ {
		if j%block == 0 {
			for k, m := range e.mass {
				a, b := expMinusOne(s.step * float64(j-1) * (e.loss[k] - e.centre))
				points[k].re, points[k].im = m*a, m*b
			}
		}
		re, im := 0.0, 0.0
		for part := range slices.Chunk(points, block) {
			x, y := rotate(part)
			re, im = re+x, im+y
		}
		size := logModulusOnePlus(re, im)
		phase := math.Atan2(im, 1+re)
		s.logModulus[j] += e.count * size
		s.phase[j] += e.count * phase
		angle := spread * s.step * float64(j)
		sumError := rounding*min(2, angle) + 8*roundingUnit*angle
		// If 1 + z has the relative error t, its power n has the relative error (1 + |t|)^n - 1.
		s.roundingError[j] += e.count * (math.Log1p(sumError*math.Exp(-size)) + logs*(math.Abs(size)+math.Abs(phase)))
	}
}

// rotate rotates points to the next frequency and adds them.
func rotate(points []rotatingPoint) (re, im float64) {
	for k := range points {
		p := &points[k]
		p.re, p.im = p.re+p.massA+(p.a*p.re-p.b*p.im), p.im+p.massB+(p.a*p.im+p.b*p.re)
		re += p.re
		im += p.im
	}
	return re, im
}

// logModulusOnePlus is log |1 + re + i·im|, with its relative precision near 0 and the absolute
// precision of |1 + re + i·im| where that is small.
func logModulusOnePlus(re, im float64) float64 {
	if square := 2*re + re*re + im*im; square > -0.5 {
		return math.Log1p(square) / 2
	}
	return max(-600, math.Log(math.Hypot(1+re, im)))
}

// expMinusOne is e^(i·angle) - 1.
func expMinusOne(angle float64) (re, im float64) {
	sin, cos := math.Sincos(angle / 2)
	return -2 * sin * sin, 2 * sin * cos
}

// roundingUnit bounds the relative rounding error 2^-53 of one operation of float64, and
// leaves 8% for products of errors and for the rounding of the bounds themselves.
const roundingUnit = dpevent.RoundingUnit

// blurredDivergence is the hockey-stick divergence of a characteristic function composed with
// the Gaussian blur.
type blurredDivergence struct {
	*characteristicFunction
	variance                    float64
	logScale, centre            float64
	re, im                      []float64 // the terms of the sum, without the phase of ε
	constantError, epsilonError float64   // bound of the error of a sum: constantError + epsilonError·|ε|
	logScaleError               float64
	missingMass                 float64
}

// blurred composes with a Gaussian whose standard deviation is blurFactor times that of the band.
func (s *characteristicFunction) blurred(blurFactor float64) *blurredDivergence {
	t := s.tilt
	variance := s.blurVariance * blurFactor * blurFactor
	b := &blurredDivergence{characteristicFunction: s, variance: variance, logScale: s.logScale + t*(t+1)*variance/2,
		centre: s.centre + (0.5+t)*variance}
	b.logScaleError = s.logScaleError + roundingUnit*(4*t*(t+1)*variance/2+math.Abs(b.logScale))
	centreError := s.centreError + roundingUnit*(4*(0.5+t)*variance+math.Abs(b.centre))
	b.re, b.im = make([]float64, len(s.logModulus)), make([]float64, len(s.logModulus))
	for j := range b.re {
		frequency := s.step * float64(j)
		size, phase := kernelTransform(t, frequency)
		logHeight := s.logModulus[j] - variance*frequency*frequency/2
		height := math.Exp(logHeight) * size
		sin, cos := math.Sincos(s.phase[j] + phase)
		b.re[j], b.im[j] = height*cos, height*sin
		// In units of a term's height: the kernel and the trigonometric functions (40); the
		// exponent and the phase; j rotations of delta, each correct to 6 units; the sum over
		// all frequencies; the angle between centre and ε.
		b.constantError += height*math.Expm1(s.roundingError[j]) +
			height*(roundingUnit*(40+8*float64(j)+float64(s.frequencyBand.count)+4*frequency*math.Abs(b.centre)+
				4*variance*frequency*frequency+math.Abs(logHeight)+math.Abs(s.phase[j]))+frequency*centreError)
		b.epsilonError += roundingUnit * height * 4 * frequency
	}
	b.re[0] /= 2
	// An error of a mass changes δ(ε) by at most the maximum of e^(-tu)(1 - e^(-u)), in units
	// of e^(logScale - tilt·ε).
	b.missingMass = s.missingMass * kernelPeak(t) * (1 + 1e-9)
	return b
}

// kernelPeak is the maximum of e^(-tu)(1 - e^(-u)).
func kernelPeak(t float64) float64 { return math.Exp(-t*math.Log1p(1/t)) / (1 + t) }

// delta is the divergence at epsilon including wrap-around, and a bound of its error.
func (b *blurredDivergence) delta(epsilon float64) (value, errorBound float64) {
	sin, cos := math.Sincos(b.step * (b.centre - epsilon))
	c, s := 1.0, 0.0
	sum := 0.0
	for j, re := range b.re {
		sum += re*c - b.im[j]*s
		c, s = c*cos-s*sin, s*cos+c*sin
	}
	scale := math.Exp(b.logScale - b.tilt*epsilon)
	value = scale * b.step / math.Pi * sum
	errorBound = scale * (b.step/math.Pi*(b.constantError+b.epsilonError*math.Abs(epsilon)) + b.tailBound + b.missingMass)
	// The exponent of scale has an absolute error, and the result that of a few operations.
	relative := math.Expm1(b.logScaleError + roundingUnit*(16+2*math.Abs(b.tilt*epsilon)+math.Abs(b.logScale)))
	return value, errorBound + relative*(math.Abs(value)+errorBound)
}

// wrapAround bounds the contribution of ε ± period, ε ± 2·period, … to delta.
func (b *blurredDivergence) wrapAround(epsilon float64) float64 {
	period := b.period()
	above := math.Inf(1)
	for i, rise := range chernoffFactors {
		s := b.tilt * rise
		moment := b.logMoments[i] + s*s*b.variance/2
		above = min(above, moment-s*(epsilon+period-b.centre)-math.Log(-math.Expm1(-s*period)))
	}
	return 1/math.Expm1(b.tilt*period) + kernelPeak(b.tilt)*math.Exp(b.logScale-b.tilt*epsilon+above)
}
