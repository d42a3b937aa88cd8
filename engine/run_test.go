package engine

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/clipping"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/noise"
	"github.com/dptrain/dptrain/perexample"
)

// disableNoise removes the noise of a run, or leaves a millionth of a lattice step of it, which
// no configuration can do.
func disableNoise(r *Run) {
	for v := range r.lot.Mechanism.Step.Sigma {
		r.lot.Mechanism.Step.Sigma[v] = 0
		if r.lot.Mechanism.Contributions != nil {
			r.lot.Mechanism.Step.Sigma[v] = 0x1p-20
		}
	}
	if r.lot.Mechanism.Vectors != nil {
		for _, s := range r.lot.Mechanism.Vectors.Sums {
			s.Sampler.Sigma, s.Query.Noise = 1, 0
		}
	}
}

// removeBound removes the clipping bound, which no configuration of a private run can do.
func removeBound(t *testing.T, r *Run) {
	var names []string
	for _, v := range r.network.Program.Parameters {
		names = append(names, v.Name)
	}
	var err error
	if r.lot.Mechanism.Clipper, err = clipping.NewClipper(names, clip.Flat(clip.Constant(math.Inf(1)), nil), clipping.Float32Accuracy); err != nil {
		t.Fatal(err)
	}
	if err := r.lot.Mechanism.Clipper.BeginLot(0); err != nil {
		t.Fatal(err)
	}
}

// Without clipping and noise, a step is that of logistic regression, computed by hand in
// float64.
func TestRun_IsSGDWithoutClippingAndNoise(t *testing.T) {
	logistic := func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		x, labels := n.Input("x", features), n.Input("label")
		logits := layer.Dense(n, x, "fc", classes, layer.Identity)
		n.SetLoss(layer.CrossEntropy(n, logits, labels), logits)
		return n.Network()
	}
	for _, policy := range []sample.Policy{sample.PolicyPoisson, sample.PolicyFixed, sample.PolicyShuffle} {
		t.Run(string(policy), func(t *testing.T) {
			c := floatConfig(t)
			c.Network, c.Sampling.Policy, c.Steps, c.Microbatch = logistic, policy, 20, 5
			private := newRun(t, c)
			disableNoise(private)
			removeBound(t, private)
			want := referenceSGD(t, c)
			trainRun(t, private, nil)
			if d := relativeDistance(flatWeights(t, private), want); d > 2e-6 {
				t.Errorf("private run without noise or bound: off by %g", d)
			}
			c.Mechanism.NonPrivate = true
			open := newRun(t, c)
			trainRun(t, open, nil)
			if d := relativeDistance(flatWeights(t, open), want); d > 2e-6 {
				t.Errorf("run that is not private: off by %g", d)
			}
		})
	}
}

// referenceSGD is softmax regression by SGD in float64 on the lots that c draws.
func referenceSGD(t *testing.T, c Config) []float32 {
	source := noise.NewSeeded(*c.Seed)
	var lots sample.Sampler
	var err error
	switch c.Sampling.Policy {
	case sample.PolicyPoisson:
		lots, err = sample.NewPoisson(float64(c.Sampling.Lot)/60, 60, source)
	case sample.PolicyFixed:
		lots, err = sample.NewFixed(c.Sampling.Lot, 60, source)
	default:
		lots, err = sample.NewShuffle(c.Sampling.Lot, 60, source)
	}
	if err != nil {
		t.Fatal(err)
	}
	net, err := c.Network(1)
	if err != nil {
		t.Fatal(err)
	}
	var start [2][]float64
	for k := range start {
		for _, v := range net.Params[k].Value().Data().([]float32) {
			start[k] = append(start[k], float64(v))
		}
	}
	weight, bias := start[0], start[1]
	members := make([]int, 60)
	x, label := make([]float32, features), make([]float32, 1)
	for step := range c.Steps {
		if err := lots.StartLot(uint64(step)); err != nil {
			t.Fatal(err)
		}
		n, err := lots.Next(members)
		if err != nil {
			t.Fatal(err)
		}
		dw, db := make([]float64, len(weight)), make([]float64, classes)
		for _, m := range members[:n] {
			if err := c.Train.Read([][]float32{x, label}, []int{m}); err != nil {
				t.Fatal(err)
			}
			p, total := make([]float64, classes), 0.0
			for k := range p {
				p[k] = bias[k]
				for i := range x {
					p[k] += float64(x[i]) * weight[i*classes+k]
				}
				p[k] = math.Exp(p[k])
				total += p[k]
			}
			for k := range p {
				delta := p[k] / total
				if k == int(label[0]) {
					delta--
				}
				db[k] += delta
				for i := range x {
					dw[i*classes+k] += float64(x[i]) * delta
				}
			}
		}
		rate := c.Optimization.Schedule.Base / lots.Event().ExpectedLot()
		for i := range weight {
			weight[i] -= rate * dw[i]
		}
		for k := range bias {
			bias[k] -= rate * db[k]
		}
	}
	var all []float32
	for _, v := range append(weight, bias...) {
		all = append(all, float32(v))
	}
	return all
}

// The size of the microbatch affects memory only.
func TestMicrobatch_DoesNotChangeResult(t *testing.T) {
	for unit, records := range map[string]Records{"example": {}, "microbatch:4": {Examples: 4}, "user": {Users: true, Examples: 3}} {
		t.Run(unit, func(t *testing.T) {
			var first []float32
			for _, size := range []int{1, 7, 12, 60} {
				c := floatConfig(t)
				c.Train, c.Records, c.Microbatch, c.Sampling.Lot = examplesOfUsers(), records, size, 6
				r := newRun(t, c)
				trainRun(t, r, nil)
				if first == nil {
					first = flatWeights(t, r)
				} else if d := relativeDistance(flatWeights(t, r), first); d > 1e-5 {
					t.Errorf("microbatches of %d: weights differ by %g from those of 1", size, d)
				}
				if got := readLedger(t, c.Files.Ledger).Header.Unit; got != unit {
					t.Errorf("the ledger's unit is %q", got)
				}
			}
		})
	}
}

// examplesOfUsers returns 59 examples of 15 users, who own between 1 and 8.
func examplesOfUsers() *data.Table {
	of := mlpExamples(59, 3)
	x, labels := make([]float32, 59*features), make([]float32, 59)
	all := make([]int, 59)
	users := make([]int32, 59)
	for i := range all {
		all[i] = i
		users[i] = int32(i * i % 15)
		if i < 15 {
			users[i] = int32(i)
		}
	}
	if err := of.Read([][]float32{x, labels}, all); err != nil {
		panic(err)
	}
	return newTable(x, labels, users)
}

// The contribution of a record has the same bits for any other records in its microbatch, any
// position, and any number of threads.
func TestContribution_IsIndependentOfMicrobatch(t *testing.T) {
	const record = 17
	var want [][]float32
	for _, threads := range []int{1, 2, 5} {
		for _, batch := range [][]int{{record}, {3, record}, {record, 4, 5, 6}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, record}, {record, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50}} {
			c := testConfig(t)
			c.Device.Threads, c.Microbatch = threads, 12
			r := newRun(t, c)
			copy(r.lot.Loader.Records, batch)
			n := len(batch)
			if err := r.lot.Loader.Load(n, nil); err != nil {
				t.Fatal(err)
			}
			for i, record := range batch { // the loader draws the words by the place in the lot
				r.network.Executable.Contributions().Seeds[i] = uint64(record)
			}
			if err := r.network.Executable.Forward(); err != nil {
				t.Fatal(err)
			}
			if err := r.lot.Mechanism.ComputeClipFactors(r.network.Executable, n, nil); err != nil {
				t.Fatal(err)
			}
			for v := range r.network.Program.Parameters {
				for i, f := range r.network.Executable.ClipFactors(v) {
					if i >= n && f != 0 {
						t.Fatalf("padding has factor %v", f)
					}
					if i >= n || batch[i] != record {
						r.network.Executable.ClipFactors(v)[i] = 0
					}
				}
			}
			if err := r.network.Executable.AddClippedSums(); err != nil {
				t.Fatal(err)
			}
			got := accumulatedSums(r)
			if want == nil {
				want = got
			}
			for v := range want {
				for i := range want[v] {
					if got[v][i] != want[v][i] {
						t.Fatalf("%d threads, among %v: element %d of %s is %v, alone it is %v", threads, batch, i, r.network.Program.Parameters[v].Name, got[v][i], want[v][i])
					}
				}
			}
		}
	}
}

// A whole run has the same bits for any number of threads.
func TestThreads_DoNotChangeResult(t *testing.T) {
	var first []float32
	for _, threads := range []int{1, 2, 3} {
		c := testConfig(t)
		c.Device.Threads, c.Optimization.Optimizer = threads, optim.Optimizer{Kind: optim.KindAdam, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
		r := newRun(t, c)
		trainRun(t, r, nil)
		got := flatWeights(t, r)
		if first == nil {
			first = got
		}
		for i := range first {
			if first[i] != got[i] {
				t.Fatalf("%d threads: weight %d is %v, with one thread %v", threads, i, got[i], first[i])
			}
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	c := testConfig(t)
	c.Device.Threads, c.Optimization.Optimizer = 0, optim.Optimizer{Kind: optim.KindAdam, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
	r := newRun(t, c)
	trainRun(t, r, nil)
	if d := relativeDistance(flatWeights(t, r), first); d != 0 {
		t.Errorf("GOMAXPROCS 1: weights differ by %g", d)
	}
}

// Runs with the same seed have the same weights on every device, up to rounding.
func TestDevices_Agree(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"examples": func(c *Config) {},
		"users": func(c *Config) {
			c.Train, c.Records, c.Sampling.Lot = examplesOfUsers(), Records{Users: true, Examples: 3}, 5
		},
		"adaptive": func(c *Config) {
			c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.2, Noise: 4}, nil)
		},
		"statistics":  func(c *Config) { c.Statistics = []Statistic{Accuracy(1, 2), MeanLoss(1, 2)} },
		"non-private": func(c *Config) { c.Mechanism.NonPrivate = true },
	} {
		var first []float32
		var released []float64
		devices, _ := Devices()
		for _, device := range devices {
			c := floatConfig(t)
			c.Device.Name, c.Optimization.Average.Decay = device.Name, 0.5
			change(&c)
			r := newRun(t, c)
			var seen []float64
			trainRun(t, r, func(p *Progress) error {
				for _, s := range p.Released {
					seen = append(seen, s.Mean...)
				}
				return nil
			})
			if first == nil {
				first, released = flatWeights(t, r), seen
			} else if d := relativeDistance(flatWeights(t, r), first); d > 1e-5 {
				t.Errorf("%s on %s: weights differ by %g", name, device.Name, d)
			}
			for i := range seen {
				if !(math.Abs(seen[i]-released[i]) <= 1e-5) {
					t.Errorf("%s on %s: released %v, want %v", name, device.Name, seen[i], released[i])
				}
			}
		}
	}
}

// The gradient of a record is the mean over its examples, also for the last, partial record.
// Only the first examples of a user count.
func TestRecords_AverageExamples(t *testing.T) {
	value := func(i, k, j int) float32 { return float32(i + 1) }
	for _, test := range []struct {
		records Records
		users   []int32
		want    float64 // the sum of the records' means
	}{
		{Records{}, nil, 1 + 2 + 3 + 4 + 5 + 6 + 7},
		{Records{Examples: 3}, nil, 2 + 5 + 7},
		{Records{Users: true, Examples: 2}, []int32{0, 1, 0, 1, 1, 0, 2}, 2 + 3 + 7},
		{Records{Users: true, Examples: 8}, []int32{0, 1, 0, 1, 1, 0, 2}, 10.0/3 + 11.0/3 + 7},
	} {
		t.Run(fmt.Sprint(test.records), func(t *testing.T) {
			for _, microbatch := range []int{1, 2, 5} {
				c := floatConfig(t)
				of := newColumnTable(7, value, 1)
				x := make([]float32, 7)
				if err := of.Read([][]float32{x}, []int{0, 1, 2, 3, 4, 5, 6}); err != nil {
					t.Fatal(err)
				}
				set, err := data.NewTable(of.Columns(), [][]float32{x}, test.users)
				if err != nil {
					t.Fatal(err)
				}
				c.Network, c.Train, c.Records, c.Microbatch = linearNetwork(1), set, test.records, microbatch
				c.Sampling.Lot, c.Sampling.Rate, c.Steps, c.Optimization.Schedule.Base = 0, 1, 1, 1
				c.Mechanism.Clipping = clip.Flat(clip.Constant(1e6), nil)
				r := newRun(t, c)
				disableNoise(r)
				trainRun(t, r, nil)
				got := -float64(flatWeights(t, r)[0]) * r.Event().ExpectedLot()
				if !(math.Abs(got-test.want) <= 1e-5*test.want) {
					t.Errorf("microbatches of %d: a sum of %v, want %v", microbatch, got, test.want)
				}
			}
		})
	}
}

// A private run learns a linear rule.
func TestRun_Learns(t *testing.T) {
	value := func(i, k, j int) float32 { return float32(math.Sin(float64(i*7 + j))) }
	of := newColumnTable(600, value, features)
	x, labels := make([]float32, 600*features), make([]float32, 600)
	all := make([]int, 600)
	for i := range all {
		all[i] = i
	}
	if err := of.Read([][]float32{x}, all); err != nil {
		t.Fatal(err)
	}
	for i := range labels {
		if x[i*features] > 0.3 {
			labels[i] = 1
		} else if x[i*features+1] > 0 {
			labels[i] = 2
		}
	}
	c := testConfig(t)
	c.Train, c.Sampling.Lot, c.Steps, c.Optimization.Schedule.Base = newTable(x, labels, nil), 60, 150, 2
	r := newRun(t, c)
	if err := r.Train(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	e, err := NewEvaluator(mlp, DeviceOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	score, err := e.Score(r.network.Executable.State().Weights, c.Train)
	if err != nil {
		t.Fatal(err)
	}
	if score.Accuracy < 0.8 {
		t.Errorf("accuracy %v on a linear rule", score.Accuracy)
	}
}
