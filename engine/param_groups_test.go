package engine

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/engine/optim"
)

// multiplierOf returns a factor for one parameter, and 1 for the others.
func multiplierOf(parameter string, factor float64) func(string) float64 {
	return func(name string) float64 {
		if name == parameter {
			return factor
		}
		return 1
	}
}

// referenceOptimizer updates a weight in float64 by the formulas of optim.Optimizer.
type referenceOptimizer struct{ weight, m, v float64 }

func (d *referenceOptimizer) update(o optim.Optimizer, step int, rate, decay, gradient float64) {
	g := gradient + decay*d.weight
	switch o.Kind {
	case optim.KindSGD:
		d.weight -= rate * g
	case optim.KindMomentum:
		d.m = o.Momentum*d.m + g
		d.weight -= rate * d.m
	case optim.KindNesterov:
		d.m = o.Momentum*d.m + g
		d.weight -= rate * (g + o.Momentum*d.m)
	case optim.KindRMSProp:
		d.v = o.Beta2*d.v + (1-o.Beta2)*g*g
		d.weight -= rate * g / (math.Sqrt(d.v) + o.Epsilon)
	case optim.KindAdagrad:
		d.v += g * g
		d.weight -= rate * g / (math.Sqrt(d.v) + o.Epsilon)
	case optim.KindAdamW:
		g = gradient
		d.weight -= rate * decay * d.weight
		fallthrough
	case optim.KindAdam:
		d.m = o.Beta1*d.m + (1-o.Beta1)*g
		d.v = o.Beta2*d.v + (1-o.Beta2)*g*g
		bias1, bias2 := 1-math.Pow(o.Beta1, float64(step)), 1-math.Pow(o.Beta2, float64(step))
		d.weight -= rate / bias1 * d.m / (math.Sqrt(d.v/bias2) + o.Epsilon)
	}
}

// Two parameters, each with its own learning rate and weight decay, have the values of a float64
// reference on every device and with every optimizer; also with a learning rate of 0 in the
// first lot.
func TestParamGroups_DevicesAgree(t *testing.T) {
	const steps = 5
	value := func(i, k, j int) float32 { return float32(math.Sin(float64(1 + i + 7*k + 3*j))) }
	rates := map[string]float64{"w0": 3, "w1": 0.5}
	decays := map[string]float64{"w0": 0, "w1": 2}
	sizes := []int{2, 3}
	devices, _ := Devices()
	for _, kind := range optim.Kinds() {
		o, err := optim.Parse(kind)
		if err != nil {
			t.Fatal(err)
		}
		o.WeightDecay = 0.3
		if o.Epsilon > 0 {
			o.Epsilon = 0.01
		}
		c := testConfig(t)
		c.Mechanism.NonPrivate, c.Files.Ledger, c.Optimization.Optimizer = true, "", o
		c.Network, c.Train, c.Sampling.Lot, c.Sampling.Rate, c.Steps = linearNetwork(sizes...), newColumnTable(4, value, sizes...), 0, 1, steps
		c.Optimization.Schedule, c.Optimization.LearningRateAt = optim.Schedule{}, func(lot int) float64 { return 0.1 * float64(lot) }
		c.Optimization.LearningRateMultiplier = func(p string) float64 { return rates[p] }
		c.Optimization.WeightDecayMultiplier = func(p string) float64 { return decays[p] }

		var want []float32
		for k, name := range []string{"w0", "w1"} {
			for j := range sizes[k] {
				var d referenceOptimizer
				gradient := 0.0
				for i := range 4 {
					gradient += float64(value(i, k, j)) / 4
				}
				for lot := range steps {
					d.update(o, lot+1, c.Optimization.LearningRateAt(lot)*rates[name], o.WeightDecay*decays[name], gradient)
				}
				want = append(want, float32(d.weight))
			}
		}
		for _, device := range devices {
			c.Device.Name = device.Name
			r := newRun(t, c)
			trainRun(t, r, nil)
			if d := relativeDistance(flatWeights(t, r), want); d > 1e-6 {
				t.Errorf("%s on %s: off by %g", kind, device.Name, d)
			}
		}
	}
}

// Factors of 1 give the same bits as no factors, and do not prevent a resumption.
func TestParamGroups_FactorsOfOne(t *testing.T) {
	one := func(string) float64 { return 1 }
	devices, _ := Devices()
	for _, device := range devices {
		for _, kind := range optim.Kinds() {
			o, err := optim.Parse(kind)
			if err != nil {
				t.Fatal(err)
			}
			o.WeightDecay = 0.3
			c := checkpointedConfig(t)
			c.Device.Name, c.Optimization.Optimizer, c.Mechanism.NonPrivate = device.Name, o, true
			plain := newRun(t, c)
			trainRun(t, plain, nil)
			c.Files.CheckpointFolder = filepath.Join(t.TempDir(), "checkpoint")
			with := c
			with.Optimization.LearningRateMultiplier, with.Optimization.WeightDecayMultiplier = one, one
			r := newRun(t, with)
			trainRun(t, r, nil)
			if !slices.Equal(flatWeights(t, r), flatWeights(t, plain)) {
				t.Errorf("%s on %s: other weights", kind, device.Name)
			}
			r.Close()
			c.Steps++
			resumeRun(t, c)
		}
	}
}

// New calls the functions for each parameter, and no lot does.
func TestParamGroups_CalledOnce(t *testing.T) {
	c := checkpointedConfig(t)
	c.Files.CheckpointInterval = 1
	var asked []string
	c.Optimization.LearningRateMultiplier = func(p string) float64 {
		asked = append(asked, p)
		return float64(len(asked))
	}
	trainRun(t, newRun(t, c), nil)
	if !slices.Equal(asked, []string{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}) {
		t.Errorf("called for %v", asked)
	}
}
