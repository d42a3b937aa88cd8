package pld

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// The δ(ε) of single sampled mechanisms, in floating point of 400 bits: closed forms
// from series of exp, log and erf, and for a check of those the integral of P - e^ε·Q.

const precision = 400

func number(x float64) *big.Float      { return new(big.Float).SetPrec(precision).SetFloat64(x) }
func plus(a, b *big.Float) *big.Float  { return new(big.Float).SetPrec(precision).Add(a, b) }
func minus(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Sub(a, b) }
func times(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Mul(a, b) }
func over(a, b *big.Float) *big.Float  { return new(big.Float).SetPrec(precision).Quo(a, b) }
func float(x *big.Float) float64       { f, _ := x.Float64(); return f }

// negligible reports whether a term is too small to change a sum.
func negligible(term, sum *big.Float) bool {
	return term.Sign() == 0 || sum.Sign() != 0 && term.MantExp(nil) < sum.MantExp(nil)-precision
}

// bigExp is e^x: by the series at x/2^k, squared k times.
func bigExp(x *big.Float) *big.Float {
	halvings := max(0, x.MantExp(nil)+12)
	small := new(big.Float).SetPrec(precision).SetMantExp(x, -halvings)
	sum, term := number(1), number(1)
	for n := 1.0; !negligible(term, sum); n++ {
		term = over(times(term, small), number(n))
		sum = plus(sum, term)
	}
	for range halvings {
		sum = times(sum, sum)
	}
	return sum
}

// bigLog is log x, by Halley's iteration: each triples the digits.
func bigLog(x *big.Float) *big.Float {
	exponent := x.MantExp(nil)
	mantissa := new(big.Float).SetMantExp(x, -exponent)
	y := number(math.Log(float(mantissa)) + float64(exponent)*math.Ln2)
	for range 3 {
		e := bigExp(y)
		y = plus(y, times(number(2), over(minus(x, e), plus(x, e))))
	}
	return y
}

var bigPi, _, _ = big.ParseFloat("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798214808651328230664709384", 10, precision, big.ToNearestEven)

// bigAbove is the probability that a unit Gaussian exceeds x: one half minus φ(x)·Σ x^(2n+1)/(2n+1)!!
// (Abramowitz and Stegun, 26.2.11). It cancels for large x, where it has some
// 400 - x² digits.
func bigAbove(x *big.Float) *big.Float {
	square := times(x, x)
	sum, term := x, x
	for n := 3.0; !negligible(term, sum); n += 2 {
		term = over(times(term, square), number(n))
		sum = plus(sum, term)
	}
	density := over(bigExp(times(square, number(-0.5))), new(big.Float).SetPrec(precision).Sqrt(times(number(2), bigPi)))
	return minus(number(0.5), times(density, sum))
}

// single is one sampled mechanism in one direction.
type single struct {
	direction   lossDirection
	rate, shift float64
	sigma       float64 // of a discrete Gaussian
}

// bounds are e^ε, and the base loss at which the losses of the pair cross ε; false
// if they do not.
func (s single) bounds(epsilon float64) (grown, crossing *big.Float, ok bool) {
	grown = bigExp(number(epsilon))
	level := grown
	if s.direction == addRecord {
		level = over(number(1), grown)
	}
	ratio := plus(over(minus(level, number(1)), number(s.rate)), number(1))
	if ratio.Sign() <= 0 {
		return grown, nil, false
	}
	return grown, bigLog(ratio), true
}

// surplus is with·q + (1-q)·without - e^ε·without, or the other way round.
func (s single) surplus(grown, with, without *big.Float) *big.Float {
	q := number(s.rate)
	mixed := plus(times(q, with), times(minus(number(1), q), without))
	if s.direction == addRecord {
		return minus(without, times(grown, mixed))
	}
	return minus(mixed, times(grown, without))
}

func (s single) gaussianDelta(epsilon float64) *big.Float {
	grown, y, ok := s.bounds(epsilon)
	if !ok {
		return number(0)
	}
	shift := number(s.shift)
	x := plus(over(y, shift), times(shift, number(0.5)))
	with, without := minus(x, shift), x
	if s.direction == addRecord { // below x
		with, without = minus(shift, x), minus(number(0), x)
	}
	return s.surplus(grown, bigAbove(with), bigAbove(without))
}

// laplaceDelta is for noise of scale 1: density e^-|x|/2, whose base loss is 2x - shift
// between 0 and shift, and constant beyond.
func (s single) laplaceDelta(epsilon float64) *big.Float {
	grown, y, ok := s.bounds(epsilon)
	if !ok || math.Abs(float(y)) >= s.shift {
		return number(0)
	}
	half := number(0.5)
	x := times(plus(y, number(s.shift)), half)
	fall, rise := times(half, bigExp(minus(number(0), x))), times(half, bigExp(minus(x, number(s.shift))))
	with, without := minus(number(1), rise), fall // above x
	if s.direction == addRecord {
		with, without = rise, minus(number(1), fall)
	}
	return s.surplus(grown, with, without)
}

// latticeDelta is for integers with probability proportional to e^(-k²/2σ²) and an integer shift.
func (s single) latticeDelta(epsilon float64) *big.Float {
	grown := bigExp(number(epsilon))
	reach := int(math.Ceil(16*s.sigma + s.shift))
	weights := make([]*big.Float, reach+int(s.shift)+1)
	unit := over(number(-0.5), times(number(s.sigma), number(s.sigma)))
	fall, faster := bigExp(unit), bigExp(times(number(2), unit)) // ratio of one weight to the next
	weights[0] = number(1)
	total := number(1)
	for k := 1; k < len(weights); k++ {
		weights[k] = times(weights[k-1], fall)
		fall = times(fall, faster)
		total = plus(total, times(number(2), weights[k]))
	}
	at := func(k int) *big.Float { return weights[max(k, -k)] }
	delta := number(0)
	for k := -reach; k <= reach; k++ {
		if v := s.surplus(grown, at(k-int(s.shift)), at(k)); v.Sign() > 0 {
			delta = plus(delta, v)
		}
	}
	return over(delta, total)
}

// integral computes gaussianDelta by quadrature from where P and e^ε·Q cross, at x = crossing ±
// e^(t - e^-t) for equidistant t (Takahasi and Mori 1974).
func (s single) integral(epsilon float64) *big.Float {
	grown, y, ok := s.bounds(epsilon)
	if !ok {
		return number(0)
	}
	shift := number(s.shift)
	start := plus(over(y, shift), times(shift, number(0.5)))
	density := func(x *big.Float) *big.Float { return bigExp(times(times(x, x), number(-0.5))) }
	const step = 1. / 24
	sum := number(0)
	for i := -110.0; i <= 90; i++ {
		t := number(i * step)
		fall := bigExp(minus(number(0), t))
		away := bigExp(minus(t, fall))
		x := plus(start, away)
		if s.direction == addRecord {
			x = minus(start, away)
		}
		weight := times(away, plus(number(1), fall))
		sum = plus(sum, times(weight, s.surplus(grown, density(minus(x, shift)), density(x))))
	}
	return over(times(sum, number(step)), new(big.Float).SetPrec(precision).Sqrt(times(number(2), bigPi)))
}

func randomSingle(r *rand.Rand, discrete bool) single {
	s := single{direction: lossDirection(r.IntN(2)), rate: math.Pow(10, -6*r.Float64()), shift: math.Pow(10, -1.5+2.2*r.Float64())}
	if r.IntN(5) == 0 {
		s.rate = 1
	}
	if discrete {
		s.sigma = math.Pow(10, -0.3+1.7*r.Float64())
		s.shift = float64(1 + r.IntN(5))
	}
	return s
}

// The test compares the closed forms with the integral, and the series with values of
// Abramowitz and Stegun's tables 4.2, 4.4 and 26.1.
func TestOracle_AgreesWithQuadrature(t *testing.T) {
	checkNear(t, "e^10", float(bigExp(number(10))), 22026.465794806718, 1e-15)
	checkNear(t, "log 10", float(bigLog(number(10))), 2.302585092994046, 1e-15)
	checkNear(t, "Q(2)", float(bigAbove(number(2))), 2.275013194817921e-2, 1e-14)
	checkNear(t, "Q(-5)", float(bigAbove(number(-5))), 1-2.866515718791939e-7, 1e-15)
	r := rand.New(rand.NewPCG(15, 16))
	for range 20 {
		s := randomSingle(r, false)
		epsilon := 2 * r.Float64()
		want, got := float(s.gaussianDelta(epsilon)), float(s.integral(epsilon))
		if want > 1e-40 {
			checkNear(t, "integral", got, want, 1e-12)
		}
	}
}

// delta is the divergence at epsilon of one discretised event.
func (t lossEstimate) delta(tilt, epsilon float64) float64 {
	sum := 0.0
	for i, loss := range t.loss {
		if above := loss - epsilon; above > 0 {
			sum += t.mass[i] * math.Exp(-tilt*above) * -math.Expm1(-above)
		}
	}
	return sum * math.Exp(t.logScale-tilt*epsilon)
}

// The pessimistic and optimistic estimates of sampled mechanisms bound the exact value and are
// close to it.
func TestDiscretize_SingleMechanisms(t *testing.T) {
	t.Parallel()
	cases := 3000
	if testing.Short() {
		cases = 300
	}
	r := rand.New(rand.NewPCG(1, 2))
	wide := 0
	for i := range cases {
		s := randomSingle(r, i%3 == 2)
		var p lossPair
		var oracle func(float64) *big.Float
		const share = 1e-30
		switch i % 3 {
		case 0:
			p, oracle = gaussianPair(s.shift), s.gaussianDelta
		case 1:
			p, oracle = laplacePair(s.shift), s.laplaceDelta
		case 2:
			p, oracle = discreteGaussianPair(dpevent.DiscreteGaussian{Shift: s.shift, Sigma: s.sigma}, share), s.latticeDelta
		}
		p.rate, p.direction = s.rate, s.direction
		p.truncate(math.Inf(1), share)
		tilt := math.Pow(10, -1+2*r.Float64())
		laid := tiltPair(p, tilt, 1e-18)
		l := laid.discretize(1e-3*laid.variance, 0.1/tilt)
		var c tiltedCumulants
		c.evaluate(p.samples(), tilt, 1e-18)
		epsilon := max(0, c.mean+3*math.Sqrt(c.variance)*(2*r.Float64()-1))
		want := float(oracle(epsilon))
		high, low := l.estimates[pessimistic], l.estimates[optimistic]
		most := high.delta(tilt, epsilon)*math.Exp(high.relativeError) + high.missingMass*kernelPeak(tilt)*math.Exp(high.logScale-tilt*epsilon) + l.truncated.with
		least := low.delta(tilt, epsilon)*math.Exp(-low.relativeError) - low.missingMass*kernelPeak(tilt)*math.Exp(low.logScale-tilt*epsilon)
		if most < want || least > want {
			t.Fatalf("%d: %+v at %v, tilt %v: %v is outside [%v, %v]", i, s, epsilon, tilt, want, least, most)
		}
		if most-least > 2e-2*want+1e-14 {
			wide++
		}
	}
	if wide > cases/20 { // where the tilt does not suit ε
		t.Errorf("%d of %d brackets are wide", wide, cases)
	}
}

// Delta agrees with the exact value for one release.
func TestDelta_OneRelease(t *testing.T) {
	t.Parallel()
	cases := 300
	if testing.Short() {
		cases = 30
	}
	r := rand.New(rand.NewPCG(17, 18))
	for i := range cases {
		s := randomSingle(r, i%3 == 2)
		query := ledger.Query{Group: "all", Mechanism: ledger.Gaussian, Sensitivity: s.shift, Noise: 1}
		oracle := single.gaussianDelta
		switch i % 3 {
		case 1:
			query.Mechanism, oracle = ledger.Laplace, single.laplaceDelta
		case 2:
			query.Mechanism, query.Noise, oracle = ledger.DiscreteGaussian, s.sigma, single.latticeDelta
		}
		epsilon := math.Pow(10, -5+6*r.Float64())
		want := 0.0
		for _, s.direction = range []lossDirection{removeRecord, addRecord} {
			want = max(want, float(oracle(s, epsilon)))
		}
		h := ledger.History{Lots: []ledger.RepeatedLot{{Lot: ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: s.rate}, Queries: []ledger.Query{query}}, Count: 1}}}
		if want < 1e-60 { // too small for the oracle
			continue
		}
		got := deltaBounds(t, h, epsilon)
		if s.rate == 1 && i%3 == 0 {
			checkNear(t, "closed form", got.upper, want, 1e-11)
			continue
		}
		width := 1e-3
		if want < 1e-9 {
			width = 2e-3
		}
		if got.upper < want || got.lower > want || want > 1e-15 && got.upper-got.lower > width*want {
			t.Errorf("%d: %+v at %v: %v in [%v, %v], %.2g wide", i, s, epsilon, want, got.lower, got.upper, (got.upper-got.lower)/want)
		}
	}
}
