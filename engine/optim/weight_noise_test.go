package optim

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The optimizers themselves run on gradients of noise alone, for 4,000 weights at once. The measured
// deviation of the weights is that of NoiseInWeights. The relative error of a deviation that is
// measured on 4,000 weights is 1.1%: a correct result is off by 6% with a probability below 10^-6 for
// each optimizer.
func TestNoiseInWeights_MatchesSimulation(t *testing.T) {
	const weights, deviation = 4000, 0.3
	schedule := make([]float64, 60)
	for i := range schedule {
		schedule[i] = 0.1 / (1 + float64(i)/20)
	}
	for _, c := range []struct {
		rule      string
		decay     float64
		tolerance float64
	}{
		{"sgd", 0, 0.06}, {"sgd:weight-decay=0.5", 0, 0.06}, {"sgd", 0.9, 0.06}, {"momentum:momentum=0.8", 0, 0.06},
		{"momentum:momentum=0.9,weight-decay=0.3", 0.8, 0.06}, {"nesterov:momentum=0.7", 0, 0.06}, {"nesterov:momentum=0.7,weight-decay=0.4", 0.5, 0.06},
		{"adam", 0, 0.12}, {"adam", 0.9, 0.12}, {"adamw:weight-decay=1", 0, 0.12},
	} {
		rule, err := ParseRule(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		average := Average{c.decay}
		run := func(signal float32) (result []float32) {
			w, gradient, averaged := make([]float32, weights), make([]float32, weights), make([]float32, weights)
			state := make([][]float32, rule.Slots())
			for i := range state {
				state[i] = make([]float32, weights)
			}
			for i, rate := range schedule {
				for k := range gradient {
					gradient[k] = signal + float32(deviation*r.NormFloat64())
				}
				if err := rule.Update(Step{Number: i + 1, Rate: rate, DecayMultiplier: 1}, w, gradient, state); err != nil {
					t.Fatal(err)
				}
				if err := average.Apply(i+1, averaged, w); err != nil {
					t.Fatal(err)
				}
			}
			if c.decay > 0 {
				return averaged
			}
			return w
		}
		n, ok := NoiseInWeights(rule, average, schedule, deviation)
		if !ok {
			t.Fatalf("%s: not known", c.rule)
		}
		if measured := deviationOf(run(0)); math.Abs(n.All/measured-1) > c.tolerance {
			t.Errorf("%s, average %v: %v, measured %v", c.rule, c.decay, n.All, measured)
		}
		// With a signal the noise of the linear rules is the same, and that of the others smaller.
		measured := deviationOf(run(0.3))
		if n.IsBound && measured > n.All*(1+c.tolerance) || !n.IsBound && math.Abs(n.All/measured-1) > c.tolerance {
			t.Errorf("%s, average %v, with a signal: %v, measured %v", c.rule, c.decay, n.All, measured)
		}
	}
}

func deviationOf(values []float32) float64 {
	var sum, squares float64
	for _, v := range values {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	n := float64(len(values))
	return math.Sqrt(squares/n - sum*sum/(n*n))
}

// The last step of sgd moves a weight by the learning rate times the noise, and by the share of the
// last weights in an average.
func TestNoiseInWeights_LastStep(t *testing.T) {
	n, _ := NoiseInWeights(Optimizer{Kind: KindSGD}, Average{}, []float64{1, 0.5}, 0.2)
	if want := math.Sqrt(0.2*0.2 + 0.1*0.1); math.Abs(n.Last-0.1) > 1e-12 || math.Abs(n.All-want) > 1e-12 || n.IsBound {
		t.Errorf("%+v, want 0.1 and %v", n, want)
	}
	average := Average{0.9}
	n, _ = NoiseInWeights(Optimizer{Kind: KindSGD}, average, []float64{1, 0.5}, 0.2)
	if want := 0.1 * average.Weight(2); math.Abs(n.Last-want) > 1e-12 {
		t.Errorf("%v, want %v", n.Last, want)
	}
	for _, rule := range []Rule{defaultAdamBC, Optimizer{Kind: KindRMSProp, Beta2: 0.9, Epsilon: 1e-8}} {
		if _, ok := NoiseInWeights(rule, Average{}, []float64{1}, 1); ok {
			t.Errorf("%T: a rule whose noise is not known has a result", rule)
		}
	}
}
