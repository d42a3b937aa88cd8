package accountant

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/accountant/internal/gaussian"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// gaussianTPR is the rate of the best attack on a Gaussian mechanism (Neyman and Pearson).
func gaussianTPR(rate, mu float64) float64 { return normalProbability(normalQuantile(rate) + mu) }

// The lines alone, without the closed form for Gaussian noise, reproduce Φ(Φ⁻¹(FPR) + µ), from
// above, and µ.
func TestTradeOff_LinesMatchGaussian(t *testing.T) {
	for _, mu := range []float64{0.01, 0.2, 0.5, 1, 1.7, 3} {
		calls := 0
		lines := newTradeOff(func(epsilon float64) float64 {
			calls++
			return gaussian.Delta(mu, epsilon)
		}, math.Inf(1))
		for _, rate := range tradeOffRates {
			want := gaussianTPR(rate, mu)
			if got := lines.TruePositiveRate(rate); got < want*(1-1e-12) || got > want*1.005 {
				t.Errorf("µ = %v: TPR %v at FPR %v, want %v", mu, got, rate, want)
			}
		}
		for _, rate := range []float64{1e-5, 3e-4, 0.02, 0.3, 0.5, 0.9} {
			if got, want := lines.TruePositiveRate(rate), gaussianTPR(rate, mu); got < want*(1-1e-12) {
				t.Errorf("µ = %v: TPR %v at FPR %v is below the attack's %v", mu, got, rate, want)
			}
		}
		if got, exact := lines.Mu(1e-3); exact || got < mu*(1-1e-9) || got > mu*1.02 {
			t.Errorf("µ = %v, exact %v, want %v", got, exact, mu)
		}
		if calls > 30 {
			t.Errorf("µ = %v: δ was computed %d times", mu, calls)
		}
	}
}

// Lots without sampling are one Gaussian mechanism: TPR = Φ(Φ⁻¹(FPR) + µ), with µ² = Σ(S/σ)².
func TestTradeOff_UnsampledLotsAreExact(t *testing.T) {
	h := Plan{Sampling: ledger.Sampling{Policy: ledger.FullBatch, Records: 100}, Steps: 25, Noise: 10}.History()
	bound, err := Compose(h).TradeOff()
	if err != nil {
		t.Fatal(err)
	}
	for _, rate := range []float64{1e-9, 1e-3, 0.01, 0.1, 0.5} {
		if got, want := bound.TruePositiveRate(rate), gaussianTPR(rate, 0.5); math.Abs(got-want) > 1e-9*want {
			t.Errorf("TPR %v at FPR %v, want %v", got, rate, want)
		}
	}
	if mu, exact := bound.Mu(1e-3); !exact || math.Abs(mu-0.5) > 1e-12 {
		t.Errorf("µ = %v, exact %v", mu, exact)
	}
}

// One Poisson lot with Gaussian noise: the best attack compares the release with a threshold (the
// likelihood ratio of the mixture (1-q)·N(0) + q·N(1/z) to N(0) is increasing), so that its rates
// have a closed form. In the other direction the mixture is the null hypothesis.
func TestTradeOff_SampledLot(t *testing.T) {
	const q, shift = 0.3, 1.4
	plan := Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: q, Records: 100}, Steps: 1, Noise: 1 / shift}
	bound, err := Compose(plan.History()).TradeOff()
	if err != nil {
		t.Fatal(err)
	}
	with := func(x float64) float64 { return (1-q)*normalProbability(-x) + q*normalProbability(shift-x) }
	for _, rate := range tradeOffRates {
		x := -normalQuantile(rate)
		for with(-x) < 1-rate { // the threshold below which the mixture has this probability
			x += 1e-4
		}
		want := max(with(-normalQuantile(rate)), normalProbability(-x))
		if got := bound.TruePositiveRate(rate); got < want*(1-1e-9) || got > want*1.005 {
			t.Errorf("TPR %v at FPR %v, want %v", got, rate, want)
		}
	}
	if mu, exact := bound.Mu(1e-3); exact || !(mu > normalQuantile(with(-normalQuantile(1e-3)))-normalQuantile(1e-3)-1e-9 && mu < shift) {
		t.Errorf("µ = %v, exact %v", mu, exact)
	}
}

// The likelihood-ratio attack on 30 simulated lots has the rates of the bound: never more, and
// nearly as much, because it is the best attack. With 20,000 trials a side a correct bound fails
// with a probability below 10^-6 (five standard deviations for six comparisons).
func TestTradeOff_SimulatedAttack(t *testing.T) {
	const q, z, lots, trials = 0.2, 1.5, 30, 20_000
	plan := Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: q, Records: 100}, Steps: lots, Noise: z}
	bound, err := Compose(plan.History()).TradeOff()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	simulate := func(present bool) []float64 {
		losses := make([]float64, trials)
		for i := range losses {
			for range lots {
				x := r.NormFloat64()
				if present && r.Float64() < q {
					x += 1 / z
				}
				losses[i] += math.Log1p(q * math.Expm1(x/z-1/(2*z*z)))
			}
		}
		slices.Sort(losses)
		return losses
	}
	absent, present := simulate(false), simulate(true)
	for _, rate := range []float64{0.01, 0.1, 0.5} {
		threshold := absent[trials-int(rate*trials)]
		at, _ := slices.BinarySearch(present, threshold)
		measured := 1 - float64(at)/trials
		got := bound.TruePositiveRate(rate)
		// The threshold is estimated too: its error moves the rate by at most the slope of the
		// curve, which is below TPR/FPR, times that of the false-positive rate.
		noise := 5 * (math.Sqrt(got*(1-got)/trials) + got/rate*math.Sqrt(rate*(1-rate)/trials))
		if measured > got+noise || rate < 0.5 && measured < got*0.97-noise {
			t.Errorf("the attack detects %v at FPR %v, and the bound is %v", measured, rate, got)
		}
	}
}

// Pure differential privacy has the curve of randomised response: TPR = min(e^ε·FPR, 1 - e^-ε·(1 - FPR)).
// The Gaussian curve above it touches its corner, where both error rates are 1/(1 + e^ε).
func TestTradeOff_PureLoss(t *testing.T) {
	for _, epsilon := range []float64{0.1, 1, 3} {
		query := ledger.Query{Group: "choice", Mechanism: ledger.PermuteAndFlip, Sensitivity: 1, Noise: 2 / epsilon}
		h := ledger.History{Lots: []ledger.RepeatedLot{{Lot: ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.FullBatch, Records: 10}, Queries: []ledger.Query{query}}, Count: 1}}}
		bound, err := Compose(h).TradeOff()
		if err != nil {
			t.Fatal(err)
		}
		for _, rate := range tradeOffRates {
			want := min(math.Exp(epsilon)*rate, 1-math.Exp(-epsilon)*(1-rate))
			if got := bound.TruePositiveRate(rate); got < want*(1-1e-9) || got > want*1.005 {
				t.Errorf("ε = %v: TPR %v at FPR %v, want %v", epsilon, got, rate, want)
			}
		}
		want := 2 * normalQuantile(1/(1+math.Exp(-epsilon)))
		if mu, exact := bound.Mu(1e-3); exact || mu < want*(1-1e-9) || mu > want*1.01 {
			t.Errorf("ε = %v: µ = %v, want %v", epsilon, mu, want)
		}
	}
}

// Without privacy every record can be found, and µ is infinite. One pair (ε, δ) gives two lines.
func TestTradeOff_Limits(t *testing.T) {
	if got := TradeOffOf(math.Inf(1), 1e-5).TruePositiveRate(0.01); got != 1 {
		t.Errorf("TPR %v", got)
	}
	all := newTradeOff(func(float64) float64 { return 1 }, math.Inf(1))
	if mu, _ := all.Mu(1e-3); !math.IsInf(mu, 1) || all.TruePositiveRate(0.01) != 1 {
		t.Errorf("µ = %v", mu)
	}
	nothing := newTradeOff(func(float64) float64 { return 0 }, math.Inf(1))
	if mu, _ := nothing.Mu(1e-3); mu > 1e-9 || nothing.TruePositiveRate(0.01) != 0.01 {
		t.Errorf("µ = %v, TPR %v", mu, nothing.TruePositiveRate(0.01))
	}
	if got, want := TradeOffOf(1, 0.01).TruePositiveRate(0.1), 0.1*math.E+0.01; math.Abs(got-want) > 1e-12 {
		t.Errorf("TPR %v, want %v", got, want)
	}
	if got, want := TradeOffOf(1, 0.01).TruePositiveRate(0.9), 1-0.09/math.E; math.Abs(got-want) > 1e-12 {
		t.Errorf("TPR %v, want %v", got, want)
	}
}

// For any history the bound by all ε is at most that by one pair (ε, δ), apart from the accuracy of
// the composition.
func TestTradeOff_SharperThanOnePair(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		c := Compose(randomHistory(r))
		bound, err := c.TradeOff()
		if err != nil {
			t.Fatal(err)
		}
		for _, delta := range []float64{1e-2, 1e-4} {
			epsilon, err := c.ProvenEpsilon(delta, "pld")
			if err != nil {
				t.Fatal(err)
			}
			for _, rate := range tradeOffRates {
				if got, most := bound.TruePositiveRate(rate), TradeOffOf(epsilon, delta).TruePositiveRate(rate); got > most*1.01 {
					t.Errorf("TPR %v at FPR %v, and (%v, %v) gives %v: %+v", got, rate, epsilon, delta, most, c.history)
				}
			}
		}
	}
}
