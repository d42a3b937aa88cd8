package drawdiscard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/noise"
)

// trial is a training of a logistic model on separable public data, in which a share of the
// returns comes from attackers.
type trial struct {
	model     *GLM
	mechanism *Mechanism
	all       *Instances
	filter    *SpamFilter
	r         *rand.Rand
	bank      *NoiseBank
	truth     []float32
	updates   uint64
}

const trialInputs = 20

func newTrial(t testing.TB, distribution Distribution, k int, alpha float64, seed uint64) *trial {
	t.Helper()
	model, err := NewGLM(Logistic, trialInputs, 2)
	if err != nil {
		t.Fatal(err)
	}
	m := newMechanism(t, Settings{Distribution: distribution, Level: FeatureLevel, Epsilon: 8, Delta: deltaFor(distribution), Clip: 1, LearningRate: 0.1}, model.Weights())
	all, err := NewInstances(model.Initial(), k, m.NoiseVariance(), noise.NewSeeded(seed))
	if err != nil {
		t.Fatal(err)
	}
	filter, err := NewSpamFilter(m, all, alpha)
	if err != nil {
		t.Fatal(err)
	}
	bank, err := NewNoiseBank(distribution, model.Weights(), seed)
	if err != nil {
		t.Fatal(err)
	}
	x := &trial{model: model, mechanism: m, all: all, filter: filter, r: rand.New(rand.NewPCG(seed, 3)), bank: bank}
	for range trialInputs {
		x.truth = append(x.truth, float32(x.r.NormFloat64()))
	}
	return x
}

// example draws a record with a label that the truth determines.
func (x *trial) example(features []float32) float32 {
	z := float32(0)
	for i := range features {
		features[i] = x.r.Float32()
		z += x.truth[i] * (features[i] - 0.5)
	}
	if z > 0 {
		return 1
	}
	return 0
}

// honest returns what an honest client with ten records returns.
func (x *trial) honest(drawn []float32) []float32 {
	const n = 10
	records := Records{Features: make([]float32, n*trialInputs), Labels: make([]float32, n)}
	for i := range n {
		records.Labels[i] = x.example(records.Features[i*trialInputs:][:trialInputs])
	}
	gradient, out := make([]float32, len(drawn)), make([]float32, len(drawn))
	if err := x.model.AverageGradient(gradient, drawn, records); err != nil {
		panic(err)
	}
	x.mechanism.Simulate(out, drawn, gradient, x.bank)
	return out
}

// submit tests a return and puts it into the set if it passes, or in any case if unfiltered.
func (x *trial) submit(w []float32, unfiltered bool) Verdict {
	verdict := x.filter.Test(w)
	if verdict == Accepted || unfiltered {
		x.all.Swap(x.r.IntN(x.all.Count()), &Instance{Weights: w})
		if x.updates++; x.updates%uint64(x.all.Count()) == 0 {
			x.filter.Refresh(x.all)
		}
	}
	return verdict
}

func (x *trial) draw() []float32 { return x.all.At(x.r.IntN(x.all.Count())).Weights }

// accuracy is that of the averaged model on fresh examples.
func (x *trial) accuracy() float64 {
	mean, features, correct := make([]float32, x.model.Weights()), make([]float32, trialInputs), 0
	x.all.Average(mean)
	const examples = 1000
	for range examples {
		label := x.example(features)
		var p [1]float32
		x.model.Predict(p[:], mean, features)
		if (p[0] > 0.5) == (label == 1) {
			correct++
		}
	}
	return float64(correct) / examples
}

// Honest returns are rejected at no more than the stated rate, for both noises, few and many
// instances, with and without returns that arrive late. 40,000 returns at α = 0.01: 400 rejects
// are expected at most. Rejects come in bursts, because an instance far from the others stays for
// many updates: the bound of 600 allows for bursts of ten.
func TestSpamFilter_FalseAlarmRate(t *testing.T) {
	const alpha, returns = 0.01, 40_000
	for _, c := range []struct {
		distribution Distribution
		k, inFlight  int
	}{{Laplace, 20, 1}, {Laplace, 20, 40}, {Laplace, 20, 320}, {Gaussian, 20, 1}, {Gaussian, 5, 5}, {Gaussian, 5, 80}, {Laplace, 2, 1}, {Laplace, 1, 1}, {Laplace, 1, 16}} {
		x := newTrial(t, c.distribution, c.k, alpha, 11)
		type pending struct {
			weights []float32
			updates uint64
		}
		var flying []pending
		rejected, expired := 0, 0
		for range returns {
			for len(flying) < c.inFlight {
				flying = append(flying, pending{x.honest(x.draw()), x.updates})
			}
			i := x.r.IntN(len(flying))
			f := flying[i]
			flying = append(flying[:i], flying[i+1:]...)
			switch {
			case x.updates-f.updates > MaxAge(c.k):
				expired++
			case x.submit(f.weights, false) != Accepted:
				rejected++
			}
		}
		if rejected > 1.5*alpha*returns {
			t.Errorf("%+v: %d of %d honest returns were rejected, at a rate of %v", c, rejected, returns, alpha)
		}
		t.Logf("%+v: %d of %d honest returns rejected, %d expired, accuracy %.3f", c, rejected, returns, expired, x.accuracy())
	}
}

// attack is a way to make a harmful return from a drawn model.
type attack struct {
	name    string
	make    func(x *trial, drawn []float32) []float32
	atMost  float64 // share of attacks that get in
	atLeast float64
	keeps   float64 // accuracy that is left
}

var attacks = []attack{
	{"random models", func(x *trial, drawn []float32) []float32 {
		w := make([]float32, len(drawn))
		for i := range w {
			w[i] = float32(10 * x.r.NormFloat64())
		}
		return w
	}, 0.001, 0, 0.75},
	{"scaled by 10", func(x *trial, drawn []float32) []float32 { return scaled(x.honest(drawn), 10) }, 0.05, 0, 0.75},
	{"sign flipped", func(x *trial, drawn []float32) []float32 { return scaled(x.honest(drawn), -1) }, 1, 0, 0.5},
	{"one weight by 100", func(x *trial, drawn []float32) []float32 {
		w := x.honest(drawn)
		w[x.r.IntN(len(w))] += 100
		return w
	}, 0.001, 0, 0.75},
	{"slow drift of σ/10", func(x *trial, drawn []float32) []float32 { return x.against(drawn, 0.1) }, 1, 0.9, 0.75},
	{"drift of σ", func(x *trial, drawn []float32) []float32 { return x.against(drawn, 1) }, 1, 0.9, 0},
	{"coordinated, the farthest that passes", func(x *trial, drawn []float32) []float32 { // as far against the truth as passes
		low, high := float32(0), float32(100)
		for range 20 {
			if middle := (low + high) / 2; x.filter.Test(x.against(x.average(), middle)) == Accepted {
				low = middle
			} else {
				high = middle
			}
		}
		return x.against(x.average(), low)
	}, 1, 0.9, 0},
}

func scaled(w []float32, factor float32) []float32 {
	for i := range w {
		w[i] *= factor
	}
	return w
}

func (x *trial) average() []float32 {
	w := make([]float32, x.model.Weights())
	x.all.Average(w)
	return w
}

// against moves every weight by some standard deviations of the noise against the truth.
func (x *trial) against(w []float32, deviations float32) []float32 {
	step := deviations * float32(math.Sqrt(x.mechanism.NoiseVariance()))
	out := append([]float32(nil), w...)
	for i, v := range x.truth {
		if v > 0 {
			out[i] -= step
		} else {
			out[i] += step
		}
	}
	return out
}

// flood trains with a share of attackers.
func (x *trial) flood(a attack, share float64, returns int, unfiltered bool) (entered, accuracy float64) {
	attempts, in := 0, 0
	const scores = 20 // the accuracy is the mean over the second half
	for i := range returns {
		if i >= returns/2 && i%(returns/2/scores) == 0 {
			accuracy += x.accuracy() / scores
		}
		drawn := x.draw()
		if x.r.Float64() < share {
			attempts++
			if x.submit(a.make(x, drawn), unfiltered) == Accepted || unfiltered {
				in++
			}
			continue
		}
		x.submit(x.honest(drawn), unfiltered)
	}
	return float64(in) / float64(max(1, attempts)), accuracy
}

// Floods of a tenth of all returns: what gets in and what the model keeps. The table in
// docs/draw-and-discard.md is the log of this test.
func TestSpamFilter_Floods(t *testing.T) {
	const share, returns = 0.1, 40_000
	clean := newTrial(t, Laplace, 20, 1e-3, 21)
	_, accuracy := clean.flood(attack{}, 0, returns, false)
	t.Logf("no attack: accuracy %.3f", accuracy)
	if accuracy < 0.8 {
		t.Errorf("without an attack the accuracy is %v", accuracy)
	}
	for _, a := range attacks {
		entered, kept := newTrial(t, Laplace, 20, 1e-3, 21).flood(a, share, returns, false)
		_, open := newTrial(t, Laplace, 20, 1e-3, 21).flood(a, share, returns, true)
		t.Log(fmt.Sprintf("| %s | %.2f%% | %.3f | %.3f |", a.name, 100*entered, kept, open))
		if entered > a.atMost || entered < a.atLeast {
			t.Errorf("%s: %.4f of the attacks got in", a.name, entered)
		}
		if kept < a.keeps {
			t.Errorf("%s: accuracy %v", a.name, kept)
		}
	}
}

// The thresholds of many instances are computed in seconds.
func BenchmarkNewSpamFilter(b *testing.B) {
	for _, k := range []int{1, 20, 1000} {
		b.Run(fmt.Sprint("k=", k), func(b *testing.B) {
			for range b.N {
				if _, err := simulateRatios(Laplace, k, 1000, 25_000); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestSpamFilter_RejectsNonFinite(t *testing.T) {
	x := newTrial(t, Gaussian, 5, 0.01, 1)
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		w := x.honest(x.draw())
		w[3] = float32(v)
		if x.filter.Test(w) == Accepted {
			t.Errorf("%v was accepted", v)
		}
	}
	for _, alpha := range []float64{0, 1, math.NaN(), 1e-9} {
		if _, err := NewSpamFilter(x.mechanism, x.all, alpha); err == nil {
			t.Errorf("α = %v: no error", alpha)
		}
	}
}

// The bound of one weight is never below the tail of the noise itself, and of sums of noise.
func TestNoiseBound_CoversNoiseAndSums(t *testing.T) {
	for _, p := range []float64{0.1, 1e-3, 1e-7, 1e-12} {
		if x := noiseBound(Laplace, p); math.Exp(-x*math.Sqrt2) > p || x > 2*math.Log(2/p) {
			t.Errorf("laplace, %v: %v", p, x)
		}
		if x := noiseBound(Gaussian, p); math.Erfc(x/math.Sqrt2) > p || x > 2*math.Sqrt(2*math.Log(2/p)) {
			t.Errorf("gaussian, %v: %v", p, x)
		}
	}
}

// The rate of false alarms holds while the learning rate falls tenfold: the spread of the instances
// follows the rate with a delay, and the filter allows for the larger of both. 20,000 returns at
// α = 0.01; bursts of ten as in TestSpamFilter_FalseAlarmRate.
func TestSpamFilter_FalseAlarmRateOfDecreasingRates(t *testing.T) {
	const alpha, returns = 0.01, 20_000
	rates, err := ParseRates("linear:0.01@15000", 0.1)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []int{2, 20} {
		x := newTrial(t, Laplace, k, alpha, 17)
		base, rejected := x.mechanism, 0
		for range returns {
			rate := rates.At(x.updates)
			if x.mechanism, err = base.AtRate(rate); err != nil {
				t.Fatal(err)
			}
			w := x.honest(x.draw())
			if x.filter.TestAtRate(w, rate) != Accepted {
				rejected++
				continue
			}
			x.all.Swap(x.r.IntN(k), &Instance{Weights: w})
			if x.updates++; x.updates%uint64(k) == 0 {
				x.filter.Refresh(x.all)
			}
		}
		stationary := StationaryVariance(k, x.mechanism.NoiseVariance())
		if spread := x.all.Spread(); rejected > 1.5*alpha*returns || spread > 3*stationary {
			t.Errorf("k = %d: %d of %d honest returns were rejected; spread %v, stationary %v", k, rejected, returns, spread, stationary)
		}
		t.Logf("k = %d: %d of %d honest returns rejected, accuracy %.3f", k, rejected, returns, x.accuracy())
	}
}

func TestParseRates_RefusesRatesThatEnd(t *testing.T) {
	for text, want := range map[string]string{"cosine": "no end", "linear:0@5": "above 0", "fast": "schedule"} {
		if _, err := ParseRates(text, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if r, err := ParseRates("warmup:4", 8); err != nil || r.At(0) != 2 || r.At(3) != 8 || r.At(math.MaxUint64) != 8 {
		t.Errorf("warm-up: %v, %v", r, err)
	}
}
