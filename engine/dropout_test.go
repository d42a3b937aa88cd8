package engine

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/noise"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// mlpWithDropout is mlp with dropout after its input and after its hidden layer.
func mlpWithDropout(rate float64) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		x, labels := n.Input("x", features), n.Input("label")
		h := layer.Dense(n, layer.Dropout(n, x, rate/2), "fc1", 7, layer.Tanh)
		logits := layer.Dense(n, layer.Dropout(n, h, rate), "fc2", classes, layer.Identity)
		n.SetLoss(layer.CrossEntropy(n, logits, labels), logits)
		return n.Network()
	}
}

// maskRevealingNetwork has the gradient D(x) in its weight: each record's sum shows its mask.
func maskRevealingNetwork(size int, rate float64) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		x := layer.Dropout(n, n.Input("x0", size), rate)
		w := n.Parameter("w0", layer.Constant(0), size, 1)
		y := n.Try(func() (*G.Node, error) { return G.Mul(x, w) })
		n.SetLoss(n.Try(func() (*G.Node, error) { return G.Reshape(y, []int{batch}) }), nil)
		return n.Network()
	}
}

// A record adds the same bits to a lot's sum in every microbatch. Records are powers of two, so
// each element of the sum shows which records' masks kept it; this must equal what op.Dropout
// computes from the run's generator, in all lots of the run.
func TestDropout_DrawsMasksForEachExample(t *testing.T) {
	const records, size = 20, 33
	bit := func(i, k, j int) float32 { return float32(uint32(1) << i) }
	seen := map[bool]int{}
	for _, test := range []struct {
		device     string
		microbatch int
		records    Records
		statistics []Statistic // computed on the host while a GPU waits
	}{
		{"cpu", 1, Records{}, nil}, {"cpu", 3, Records{}, nil}, {"cpu", 20, Records{}, nil}, {"gorgonia", 7, Records{}, nil},
		{"cpu", 2, Records{Examples: 3}, nil},
		{"cuda:0", 3, Records{}, nil}, {"cuda:0", 2, Records{Examples: 3}, nil}, {"cuda:0", 3, Records{}, []Statistic{MeanLoss(1, 1)}},
	} {
		t.Run(fmt.Sprint(test.device, test.microbatch, test.records, len(test.statistics)), func(t *testing.T) {
			requireDevice(t, test.device)
			c := floatConfig(t)
			useUnitSteps(&c)
			c.Network, c.Train, c.Steps = maskRevealingNetwork(size, 0.5), newColumnTable(records, bit, size), 6
			c.Device.Name, c.Microbatch, c.Records, c.Sampling.Lot, c.Statistics = test.device, test.microbatch, test.records, 4, test.statistics
			c.Mechanism.Clipping = clip.Flat(clip.Constant(1e9), nil)
			r := newRun(t, c)
			disableNoise(r)
			for lot := range c.Steps {
				zeroFirstParameter(t, r)
				drawn := drawLot(t, r, lot)
				if err := r.runLot(); err != nil {
					t.Fatal(err)
				}
				want := make([]float64, size)
				for k, record := range drawn {
					rows, share := rowsOf(r, record)
					for i, row := range rows {
						if share[i] == 0 {
							continue
						}
						for j := range want {
							stays := keepsElement(t, r, 0.5, k*len(rows)+i, lot, j)
							seen[stays]++
							if stays {
								want[j] += 2 * float64(share[i]) * float64(uint32(1)<<row)
							}
						}
					}
				}
				for j, w := range flatWeights(t, r) {
					if got := -float64(w) * r.Event().ExpectedLot(); !(math.Abs(got-want[j]) <= 1e-6*want[j]) {
						t.Fatalf("lot %d, element %d: a sum of %v, want %v", lot, j, got, want[j])
					}
				}
			}
		})
	}
	if seen[true] == 0 || seen[false] == 0 {
		t.Fatalf("%v elements stayed or fell: the test has no power", seen)
	}
}

// requireDevice skips a test where the host lacks a device.
func requireDevice(t *testing.T, device string) {
	t.Helper()
	list, _ := Devices()
	if !slices.ContainsFunc(list, func(d Device) bool { return d.Name == device }) {
		t.Skipf("there is no %s; make test-emu has an emulated one", device)
	}
}

// zeroFirstParameter sets the first parameter to zero, so that the next step is exact.
func zeroFirstParameter(t *testing.T, r *Run) {
	t.Helper()
	clear(r.network.Executable.State().Weights[0])
	if err := r.network.Executable.LoadState(); err != nil {
		t.Fatal(err)
	}
}

// keepsElement computes, by package op only, whether the mask of maskRevealingNetwork keeps an
// element in a slot of the lot.
func keepsElement(t *testing.T, r *Run, rate float64, slot, step, element int) bool {
	t.Helper()
	var drawn [1]uint64
	if err := r.source.Uint64s(drawn[:], noise.Stream{Purpose: noise.ExampleRandomness, Lot: uint64(step)}, uint64(slot)); err != nil {
		t.Fatal(err)
	}
	var ticket [op.MaskSeedWidth]float32
	op.WriteMaskSeed(ticket[:], drawn[0]>>16, step)
	c1, c2, c3, _ := op.MaskCounter(ticket[:])
	d := op.Dropout{Rate: rate, Seed: 1, Layer: 1}
	k0, k1 := d.Key()
	var words [4]uint32
	words[0], words[1], words[2], words[3] = op.Philox(uint32(element/4), c1, c2, c3, k0, k1)
	return words[element%4] >= d.Threshold()
}

// With dropout, the sums of data sets that differ in one record differ, in every lot, by that
// record's clipped gradient only.
func TestDropout_NeighboursDifferByOneGradient(t *testing.T) {
	const records, size = 30, 40
	run := func(other float32) (sums [][]float64) {
		value := func(i, k, j int) float32 {
			if i == 11 {
				return other
			}
			return float32(math.Sin(float64(i + 7*j)))
		}
		c := floatConfig(t)
		useUnitSteps(&c)
		c.Network, c.Train, c.Steps, c.Sampling.Lot, c.Microbatch = maskRevealingNetwork(size, 0.5), newColumnTable(records, value, size), 10, 15, 4
		r := newRun(t, c)
		disableNoise(r)
		before := make([]float32, size)
		trainRun(t, r, func(*Progress) error {
			var sum []float64
			for j, w := range flatWeights(t, r) {
				sum = append(sum, float64(w-before[j])*r.Event().ExpectedLot())
				before[j] = w
			}
			sums = append(sums, sum)
			return nil
		})
		return sums
	}
	with, without := run(50), run(0)
	moved := 0
	for lot := range with {
		var square float64
		for j := range with[lot] {
			d := with[lot][j] - without[lot][j]
			square += d * d
		}
		switch norm := math.Sqrt(square); {
		case norm < 1e-4:
		case math.Abs(norm-1) < 1e-4: // its gradient is much longer than the bound
			moved++
		default:
			t.Errorf("lot %d: sums differ by %v, want 0 or the bound 1", lot, norm)
		}
	}
	if moved == 0 || moved == len(with) {
		t.Fatalf("the record was in %d of %d lots: the test has no power", moved, len(with))
	}
}

// A resumed run continues with the masks of the following steps. A run with other dropout is
// refused.
func TestResume_ContinuesDropoutSteps(t *testing.T) {
	const records, size = 12, 33
	bit := func(i, k, j int) float32 { return float32(uint32(1) << i) }
	c := checkpointedConfig(t)
	c.Mechanism.Arithmetic = FloatArithmetic
	useUnitSteps(&c)
	c.Optimization.Average.Decay = 0
	c.Network, c.Train, c.Sampling.Lot, c.Sampling.Rate, c.Steps = maskRevealingNetwork(size, 0.5), newColumnTable(records, bit, size), 0, 1, 3
	c.Mechanism.Clipping = clip.Flat(clip.Constant(1e9), nil)
	r := newRun(t, c)
	trainRun(t, r, nil)
	r.Close()

	for _, other := range []perexample.Build{maskRevealingNetwork(size, 0.25), maskRevealingNetwork(size, 0)} {
		d := c
		d.Network, d.Steps = other, 5
		if _, err := Resume(d); err == nil {
			t.Error("a run with other dropout was resumed")
		}
	}
	c.Steps, c.Microbatch = 5, 1
	r = resumeRun(t, c)
	disableNoise(r)
	for step := 3; step < 5; step++ {
		zeroFirstParameter(t, r)
		if err := r.runLot(); err != nil {
			t.Fatal(err)
		}
		for j, w := range flatWeights(t, r) {
			want := 0.0
			for row := range records {
				if keepsElement(t, r, 0.5, row, step, j) {
					want += 2 * float64(uint32(1)<<row)
				}
			}
			if got := -float64(w) * r.Event().ExpectedLot(); !(math.Abs(got-want) <= 1e-6*want) {
				t.Fatalf("step %d, element %d: a sum of %v, want %v", step, j, got, want)
			}
		}
	}
}

// deviceNames returns the devices of this build and host.
func deviceNames() []string {
	names := []string{"cpu", "gorgonia"}
	if list, _ := Devices(); slices.ContainsFunc(list, func(d Device) bool { return d.Name == "cuda:0" }) {
		names = append(names, "cuda:0")
	}
	return names
}

// Training with dropout gives the same result on the CPU and on Gorgonia, allocates nothing and
// learns; evaluation drops nothing.
func TestDropout_Trains(t *testing.T) {
	var made [][]float32
	for _, device := range deviceNames() {
		c := floatConfig(t)
		c.Network, c.Device.Name, c.Sampling.Policy, c.Steps = mlpWithDropout(0.5), device, sample.PolicyFixed, 8
		r := newRun(t, c)
		trainRun(t, r, nil)
		made = append(made, flatWeights(t, r))
	}
	for i, device := range deviceNames() {
		if d := relativeDistance(made[0], made[i]); d > 1e-5 {
			t.Errorf("the weights of %s differ by %g", device, d)
		}
	}
	c := floatConfig(t)
	c.Steps = 8
	c.Network, c.Sampling.Policy = mlp, sample.PolicyFixed
	r := newRun(t, c)
	trainRun(t, r, nil)
	if d := relativeDistance(made[0], flatWeights(t, r)); d < 1e-3 {
		t.Errorf("without dropout the weights differ by %g alone: the test has no power", d)
	}

	// A linear rule: class 1 where the first number is above zero.
	x, labels := make([]float32, 600*features), make([]float32, 600)
	for i := range x {
		x[i] = float32(math.Sin(float64(i * i)))
	}
	for i := range labels {
		if x[i*features] > 0 {
			labels[i] = 1
		}
	}
	c = floatConfig(t)
	c.Network, c.Train, c.Sampling.Lot, c.Steps, c.Optimization.Schedule = mlpWithDropout(0.2), newTable(x, labels, nil), 60, 150, optim.Schedule{Base: 2}
	r = newRun(t, c)
	trainRun(t, r, nil)
	score := func(build perexample.Build) Evaluation {
		e, err := NewEvaluator(build, DeviceOptions{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		s, err := e.Score(r.network.Executable.State().Weights, c.Train)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := score(mlpWithDropout(0.2))
	if s.Accuracy < 0.8 {
		t.Errorf("accuracy %v on a linear rule", s.Accuracy)
	}
	if plain := score(mlp); plain.Loss != s.Loss || plain.Accuracy != s.Accuracy {
		t.Errorf("evaluated with dropout layers the loss is %v, without them %v", s.Loss, plain.Loss)
	}
}
