package pld

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/accountant/internal/gaussian"
	"github.com/dptrain/dptrain/accountant/internal/numerics"
)

// bigSinCos is sine and cosine by their series at a fraction of the angle, doubled.
func bigSinCos(angle *big.Float) (sin, cos *big.Float) {
	halvings := max(0, angle.MantExp(nil)+12)
	x := new(big.Float).SetPrec(precision).SetMantExp(angle, -halvings)
	sin, term := x, x
	minusSquare := minus(number(0), times(x, x))
	for n := 3.0; !negligible(term, sin); n += 2 {
		term = over(times(term, minusSquare), number(n*(n-1)))
		sin = plus(sin, term)
	}
	cos = new(big.Float).SetPrec(precision).Sqrt(minus(number(1), times(sin, sin)))
	for range halvings {
		sin, cos = times(number(2), times(sin, cos)), minus(number(1), times(number(2), times(sin, sin)))
	}
	return sin, cos
}

// difference is |a - want|.
func difference(a float64, want *big.Float) float64 {
	return math.Abs(float(minus(number(a), want)))
}

// The bounds of rounding errors assume that library functions are correct to 4 units: relatively,
// for sine and cosine absolutely. The test has a grid and random points.
func TestLibraryFunctions_Accuracy(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 62))
	check := func(name string, x, got float64, want *big.Float, size float64) {
		if off := difference(got, want); !(off <= 4*roundingUnit*size) {
			t.Errorf("%s(%v) = %v is off by %.3g units", name, x, got, off/size/roundingUnit)
		}
	}
	for i := range 3000 {
		x := 1400*r.Float64() - 700
		if i%3 == 0 {
			x = math.Exp(-30+36*r.Float64()) * float64(1-2*r.IntN(2))
		} else if i%3 == 1 {
			x = float64(i-1500) / 16
		}
		if math.Abs(x) > 690 {
			continue
		}
		e := bigExp(number(x))
		check("Exp", x, math.Exp(x), e, float(e))
		if x != 0 {
			m := minus(e, number(1))
			check("Expm1", x, math.Expm1(x), m, math.Abs(float(m)))
			a := math.Abs(x)
			l := bigLog(number(a))
			check("Log", a, math.Log(a), l, math.Abs(float(l)))
			if a > 1e-9 {
				l = bigLog(plus(number(1), number(a)))
				check("Log1p", a, math.Log1p(a), l, float(l))
				b := -a / (1 + a)
				l = bigLog(plus(number(1), number(b)))
				check("Log1p", b, math.Log1p(b), l, -float(l))
			}
		}
		sin, cos := math.Sincos(x)
		wantSin, wantCos := bigSinCos(number(x))
		check("Sin", x, sin, wantSin, min(1, math.Abs(x)))
		check("Cos", x, cos, wantCos, 1)
		if angle := math.Mod(x, math.Pi); angle != 0 {
			s, c := bigSinCos(number(math.Atan2(sin, cos))) // of an angle whose sine and cosine are known
			h := new(big.Float).SetPrec(precision).Sqrt(plus(times(number(sin), number(sin)), times(number(cos), number(cos))))
			off := float(minus(times(s, number(cos)), times(c, number(sin)))) / float(h)
			if size := math.Abs(math.Atan2(sin, cos)); !(math.Abs(off) <= 4*roundingUnit*size) {
				t.Errorf("Atan2(%v, %v) is off by %.3g units", sin, cos, off/size/roundingUnit)
			}
			check("Hypot", x, math.Hypot(sin, cos), h, 1)
		}
		if z := 10*r.Float64() - 5; true {
			want := bigAbove(times(number(z), new(big.Float).SetPrec(precision).Sqrt(number(2))))
			check("Erfc", z, math.Erfc(z)/2, want, float(want))
		}
	}
}

// The error of a sampled loss is within its bound, also where the rate is almost 1 and 1 + q(e^y - 1)
// cancels. A bound by the size of the loss alone is not enough there.
func TestLossPair_LossErrorIsCharged(t *testing.T) {
	r := rand.New(rand.NewPCG(63, 64))
	exceeded := 0
	for range 3000 {
		p := gaussianPair(1)
		p.rate = math.Exp(-20 * r.Float64())
		if r.IntN(2) == 0 {
			p.rate = 1 - math.Exp(-33*r.Float64())
		}
		y := 60*r.Float64() - 45
		if p.rate == 1 {
			continue
		}
		_, l := p.likelihoodRatio(y)
		want := bigLog(plus(number(1), times(number(p.rate), minus(bigExp(number(y)), number(1)))))
		slope, excess := p.lossConditioning(y)
		off := difference(l, want)
		if bound := roundingUnit * (8*slope*math.Abs(y) + 16*excess + 8*math.Abs(l)); !(off <= bound) {
			t.Errorf("rate %v, y = %v: the loss is off by %v, bounded by %v", p.rate, y, off, bound)
		}
		if off > 4*roundingUnit*math.Abs(l) {
			exceeded++
		}
	}
	if exceeded < 100 {
		t.Errorf("only %d losses have a larger error than their size alone allows: the test is not conclusive", exceeded)
	}
}

// The characteristic function of many repetitions is within its error bound, for points whose
// angles are small, large and close to multiples of π.
func TestCharacteristicFunction_RoundingIsCharged(t *testing.T) {
	r := rand.New(rand.NewPCG(65, 66))
	for _, spread := range []float64{1e-3, .1, 3} {
		const points, count, frequencies = 30, 1e5, 70
		e := lossEstimate{logScale: -1}
		sum := 0.0
		for k := range points {
			e.loss = append(e.loss, spread*(float64(k)+r.Float64()))
			e.mass = append(e.mass, math.Exp(-8*r.Float64()))
			sum += e.mass[k]
		}
		for k := range e.mass {
			e.mass[k] /= sum
		}
		s := &characteristicFunction{tilt: 1}
		s.add(e, probabilities{}, count)
		s.evaluate(frequencyBand{step: math.Pi / 40, count: frequencies, blurVariance: 1}, 0)
		for j := 1; j <= frequencies; j += 3 {
			re, im := number(1), number(0)
			for k, m := range e.mass {
				angle := times(times(number(s.step), number(float64(j))), minus(number(e.loss[k]), number(s.events[0].centre)))
				sin, cos := bigSinCos(angle)
				re = plus(re, times(number(m), minus(cos, number(1))))
				im = plus(im, times(number(m), sin))
			}
			modulus := times(bigLog(plus(times(re, re), times(im, im))), number(count/2))
			off := difference(s.logModulus[j], modulus)
			// The phase is compared by the sine of its difference for one repetition.
			sin, cos := bigSinCos(over(number(s.phase[j]), number(count)))
			turn := float(over(minus(times(sin, re), times(cos, im)), new(big.Float).SetPrec(precision).Sqrt(plus(times(re, re), times(im, im)))))
			if off = math.Hypot(off, count*turn); !(off <= s.roundingError[j]) {
				t.Errorf("spread %v, frequency %d: off by %v, bounded by %v", spread, j, off, s.roundingError[j])
			}
		}
	}
}

// A sum of a million terms is correct to two units. A plain sum is not.
func TestCompensatedSum_ManyTerms(t *testing.T) {
	var s compensatedSum
	exact := number(0)
	plain := 0.0
	for k := range 1_000_000 {
		x := math.Exp(-float64(k%1000) / 700)
		s.add(x)
		plain += x
		exact = plus(exact, number(x))
	}
	allowed := 2 * roundingUnit * float(exact)
	if off := difference(s.value(), exact); !(off <= allowed) {
		t.Errorf("off by %v, allowed %v", off, allowed)
	}
	if off := difference(plain, exact); !(off > allowed) {
		t.Errorf("a plain sum is off by %v only: the test is not conclusive", off)
	}
}

// The bounds of the closed form contain the exact value. The closed form alone is often below it.
func TestGaussianBounds_ContainExactValue(t *testing.T) {
	r := rand.New(rand.NewPCG(67, 68))
	below := 0
	for range 2000 {
		s := single{rate: 1, shift: math.Exp(-5 + 7*r.Float64())}
		epsilon := s.shift * 6 * r.Float64()
		want := s.gaussianDelta(epsilon)
		if float(want) < 1e-40 {
			continue
		}
		upper, lower := gaussian.DeltaBounds(s.shift, epsilon)
		if number(upper).Cmp(want) < 0 || number(lower).Cmp(want) > 0 {
			t.Errorf("shift %v, ε %v: δ = %v is outside [%v, %v]", s.shift, epsilon, float(want), lower, upper)
		}
		if upper-lower > 1e-9*upper {
			t.Errorf("shift %v, ε %v: [%v, %v] is wide", s.shift, epsilon, lower, upper)
		}
		if number(gaussian.Delta(s.shift, epsilon)).Cmp(want) < 0 {
			below++
		}
	}
	if below < 100 {
		t.Errorf("only %d values of the closed form are below the exact one: the test is not conclusive", below)
	}
}

// The quadrature of a density is within its error bound on panels of the greatest width.
func TestQuadraturePanels_ErrorIsCharged(t *testing.T) {
	for _, shift := range []float64{.1, 1, 8} {
		p := gaussianPair(shift)
		for a := -12.0; a < 12; a += .37 {
			for _, width := range []float64{.05, .5, 3} {
				b := a + width
				panels := p.quadraturePanels(a, b)
				sum := 0.0
				each := (b - a) / float64(panels)
				for panel := range panels {
					sum += panelIntegral(a+each*float64(panel), each)
				}
				want := float(minus(bigAbove(number(a)), bigAbove(number(b))))
				if off := math.Abs(sum-want) / want; !(off <= roundingUnit*(quadratureError+64+16*max(a*a, b*b)+float64(5*panels))) {
					t.Errorf("shift %v, from %v to %v: relative error %v", shift, a, b, off)
				}
			}
		}
	}
}

// panelIntegral is the integral of φ from a to a + width by the five-point rule.
func panelIntegral(a, width float64) float64 {
	sum := 0.0
	for k, node := range numerics.Nodes {
		x := a + width*(1+node)/2
		sum += width / 2 * numerics.Weights[k] * math.Exp(-x*x/2) / math.Sqrt(2*math.Pi)
	}
	return sum
}
