package accountant

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant/internal/gaussian"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// between spreads u in [0, 1] logarithmically over [from, to].
func between(u, from, to float64) float64 {
	u = math.Abs(math.Mod(u, 1))
	if !(u >= 0) {
		u = 0
	}
	return math.Exp(math.Log(from) + u*math.Log(to/from))
}

// logAbove is the logarithm of the probability that a unit Gaussian exceeds x.
func logAbove(x float64) float64 {
	if x < 5 {
		return math.Log(math.Erfc(x*math.Sqrt2/2) / 2)
	}
	return -x*x/2 - math.Log(2*math.Pi)/2 + math.Log(gaussian.MillsRatio(x))
}

// oneLot is δ(ε) of one sampled Gaussian in the direction with the record, by its closed form in
// logarithms. A run has at least this δ.
func oneLot(rate, shift, epsilon float64) float64 {
	y, logLevel := epsilon-math.Log(rate), epsilon // of e^ε - (1 - rate)
	if epsilon < 600 {
		y, logLevel = math.Log1p(math.Expm1(epsilon)/rate), math.Log(math.Expm1(epsilon)+rate)
	}
	x := y/shift + shift/2
	with, without := math.Log(rate)+logAbove(x-shift), logLevel+logAbove(x)
	return -math.Expm1(without-with) * math.Exp(with)
}

// checkExtreme computes the ε of one run by every accountant, for parameters in the ranges
// σ ∈ [0.05, 1000], q ∈ [1e-8, 1], T ∈ [1, 1e7], δ ∈ [1e-15, 0.5].
func checkExtreme(t *testing.T, noise, rate, steps, delta float64) {
	q, sigma := between(rate, 1e-8, 1), between(noise, .05, 1000)
	h := poisson(q, sigma, int(between(steps, 1, 1e7)))
	d := between(delta, 1e-15, .5)
	least := 0.0 // the lower bound of pld, which is computed first
	for _, name := range Names() {
		start := time.Now()
		answer, err := Epsilon(h, d, name)
		if time.Since(start) > time.Minute { // another process may have used the processor
			start = time.Now()
			answer, err = Epsilon(h, d, name)
		}
		if err != nil {
			t.Fatalf("%s of %+v at %v: %v", name, h.Lots, d, err)
		}
		infinite := math.IsInf(answer.Epsilon, 1) && name != "pld" && name != "rdp"
		if !(answer.Epsilon >= 0) || answer.Adjacency != ledger.AddRemove || math.IsInf(answer.Epsilon, 0) && !infinite || answer.LowerBound > answer.Epsilon {
			t.Fatalf("%s of %+v at %v: %+v", name, h.Lots, d, answer)
		}
		if took := time.Since(start); took > time.Minute { // under the race detector too
			t.Fatalf("%s of %+v at %v took %v", name, h.Lots, d, took)
		}
		if one := oneLot(q, 1/sigma, answer.Epsilon); name != "gdp" && one > d*(1+1e-6)+1e-14*q {
			t.Fatalf("%s of %+v at %v: %+v, where one lot alone has delta %v", name, h.Lots, d, answer, one)
		}
		switch {
		case name == "pld":
			least = answer.LowerBound
			back, err := Delta(h, answer.Epsilon, name)
			if err != nil || !(back.Delta >= 0 && back.Delta <= 1 && back.LowerBound <= d*(1+1e-9)) {
				t.Fatalf("%+v: epsilon %v at %v, and back %+v (%v)", h.Lots, answer.Epsilon, d, back, err)
			}
		case name == "rdp" && answer.Epsilon < least*(1-1e-9):
			t.Fatalf("rdp %v of %+v at %v is below %v, the least that was spent", answer.Epsilon, h.Lots, d, least)
		}
	}
}

func FuzzEpsilon(f *testing.F) {
	f.Add(.3, .5, .6, .7)
	f.Add(0., 0., 1., 0.)
	f.Add(0., .999, 0., .999)
	f.Add(.999, .1, .9, .1)
	f.Add(0., 0., 0., 0.)
	f.Add(-31.1, -16.65, 163.2, .14)
	f.Fuzz(checkExtreme)
}

func TestEpsilon_ExtremeParameters(t *testing.T) {
	t.Parallel()
	cases := 60
	if testing.Short() {
		cases = 10
	}
	r := rand.New(rand.NewPCG(11, 12))
	for range cases {
		checkExtreme(t, r.Float64(), r.Float64(), r.Float64(), r.Float64())
	}
}
