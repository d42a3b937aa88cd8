package engine

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// pictures has batch normalization of the pictures themselves, whose statistics follow from the data
// alone, and behind a convolution.
func pictures(batch int) (*perexample.Network, error) {
	b := layer.NewBuilder(batch, 1)
	x := layer.BatchNorm(b, b.Input("x", 2, 4, 4), "first")
	x = layer.Conv2D(b, x, "conv", 3, layer.Window{Size: 3}, layer.Identity)
	x = layer.Activate(b, layer.BatchNorm(b, x, "second"), layer.Tanh)
	logits := layer.Dense(b, layer.Flatten(b, x), "fc", classes, layer.Identity)
	b.SetLoss(layer.CrossEntropy(b, logits, b.Input("label")), logits)
	return b.Network()
}

const pictureSize = 2 * 4 * 4

// pictureTable has channels with different means and deviations, and a record far from the others.
func pictureTable(count int) *data.Table { return picturesOf(count, nil) }

// picturesOf is pictureTable with the user of each picture.
func picturesOf(count int, userOf func(row int) int32) *data.Table {
	r := rand.New(rand.NewPCG(4, 4))
	x, labels := make([]float32, count*pictureSize), make([]float32, count)
	for i := range x {
		channel := i / 16 % 2
		x[i] = float32(0.5 - float64(channel) + (0.5+float64(channel))*r.NormFloat64())
		if i/pictureSize == 1 {
			x[i] = 40
		}
	}
	for i := range labels {
		labels[i] = float32(r.IntN(classes))
	}
	var users []int32
	for row := range count {
		if userOf != nil {
			users = append(users, userOf(row))
		}
	}
	columns := []data.Column{{Name: "x", Shape: []int{2, 4, 4}}, {Name: "label", Kind: data.Label, Classes: classes}}
	t, err := data.NewTable(columns, [][]float32{x, labels}, users)
	if err != nil {
		panic(err)
	}
	return t
}

// batchNormConfig is a private run in which every record is in every lot.
func batchNormConfig(t testing.TB, sigma float64) Config {
	c := testConfig(t)
	c.Network, c.Train, c.Steps = pictures, pictureTable(30), 3
	c.Sampling = Sampling{Rate: 1}
	s, err := BatchStatistics(pictures, 0, sigma)
	if err != nil {
		t.Fatal(err)
	}
	c.Statistics = []Statistic{s}
	return c
}

// runningOf returns the running statistics of the layer first: means, then variances.
func runningOf(t testing.TB, r *Run) []float32 {
	t.Helper()
	all, err := r.Parameters()
	if err != nil {
		t.Fatal(err)
	}
	var values []float32
	for _, p := range all {
		if p.Name == "first.running_mean" || p.Name == "first.running_var" {
			values = append(values, p.Values...)
		}
	}
	return values
}

// The running statistics of the first layer are those that float64 arithmetic computes from the
// records: each record's vector is clipped to the bound, one that is far away too.
func TestBatchNorm_MatchesOracle(t *testing.T) {
	for _, arithmetic := range []Arithmetic{ExactArithmetic, FloatArithmetic} {
		c := batchNormConfig(t, 1e-4)
		c.Mechanism.Arithmetic = arithmetic
		// The vectors of a hidden layer depend on the weights, so this network has only the first
		// layer.
		c.Network = func(batch int) (*perexample.Network, error) {
			b := layer.NewBuilder(batch, 1)
			x := layer.BatchNorm(b, b.Input("x", 2, 4, 4), "first")
			logits := layer.Dense(b, layer.Flatten(b, x), "fc", classes, layer.Identity)
			b.SetLoss(layer.CrossEntropy(b, logits, b.Input("label")), logits)
			return b.Network()
		}
		var err error
		if c.Statistics[0], err = BatchStatistics(c.Network, 0, 1e-4); err != nil {
			t.Fatal(err)
		}
		r := newRun(t, c)
		mean, variance := []float64{0, 0}, []float64{1, 1}
		n, x := c.Train.Len(), make([]float32, pictureSize)
		clipped := 0
		err = r.Train(context.Background(), func(p *Progress) error {
			sum := make([]float64, 4)
			for i := range n {
				if err := c.Train.Read([][]float32{x, make([]float32, 1)}, []int{i}); err != nil {
					return err
				}
				vector := make([]float64, 4)
				for j, v := range x {
					k := j / 16
					standardized := (float64(v) - mean[k]) / math.Sqrt(variance[k]+1e-5)
					vector[k] += standardized / 16
					vector[2+k] += (standardized*standardized - 1) / 16
				}
				norm := 0.0
				for _, v := range vector {
					norm += v * v
				}
				if norm = math.Sqrt(norm); norm > 2 {
					clipped++
				}
				for k, v := range vector {
					sum[k] += v * min(1, 2/norm)
				}
			}
			rate := 1 / float64(p.Lot)
			for k := range mean {
				d, s := sum[k]/float64(n), sum[2+k]/float64(n)
				mean[k] += rate * d * math.Sqrt(variance[k])
				variance[k] *= min(4, max(0.25, 1+rate*(s-d*d)))
			}
			for i, got := range runningOf(t, r) {
				if want := append(slices.Clone(mean), variance...)[i]; math.Abs(float64(got)-want) > 1e-4 {
					t.Errorf("%s, lot %d: running statistic %d is %v, want %v", arithmetic, p.Lot, i, got, want)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if clipped < 3 || mean[0] == 0 {
			t.Errorf("%d vectors were clipped, the mean is %v", clipped, mean)
		}
	}
}

// sumsOf returns the first lot's integer sums of the gradients and of the statistic.
func sumsOf(t *testing.T, c Config) (gradients [][]float32, statistic []int64) {
	t.Helper()
	c.Files.Ledger = filepath.Join(t.TempDir(), "ledger.jsonl")
	r := newRun(t, c)
	if err := r.sumLot(); err != nil {
		t.Fatal(err)
	}
	return accumulatedSums(r), slices.Clone(r.lot.Sums.Sum(r.config.entryOf(0)).Integers)
}

// One record changes the sums by its own contribution and by nothing else: what the others add to
// the statistic has the same bits with and without it, in microbatches of every size and for every
// number of threads, and what they add to the gradients is the same up to its random rounding. The
// statistic changes by at most the lattice.
func TestBatchNorm_RecordsAreIndependent(t *testing.T) {
	const record = 4
	c := batchNormConfig(t, 5)
	without := func(alone bool) data.Set {
		blank := make([]bool, 30)
		for i := range blank {
			blank[i] = (i == record) != alone
		}
		return blankedSet{c.Train.(*data.Table), blank}
	}
	_, statistic := sumsOf(t, c)
	for _, microbatch := range []int{1, 7, 30} {
		for _, threads := range []int{1, 3} {
			other := c
			other.Microbatch, other.Device.Threads = microbatch, threads
			if microbatch != 30 || threads != 1 {
				_, s := sumsOf(t, other)
				if !slices.Equal(s, statistic) {
					t.Errorf("microbatches of %d, %d threads: other sums of the statistic", microbatch, threads)
				}
			}
			other.Train = without(false)
			rest, restStatistic := sumsOf(t, other)
			other.Train = without(true)
			own, ownStatistic := sumsOf(t, other)
			squares := 0.0
			for i, s := range statistic {
				if restStatistic[i]+ownStatistic[i] != s {
					t.Fatalf("microbatches of %d: number %d of the statistic is %d with the record, %d without it, and it adds %d", microbatch, i, s, restStatistic[i], ownStatistic[i])
				}
				squares += float64(ownStatistic[i]) * float64(ownStatistic[i])
			}
			if lattice := float64(1 << 30); squares == 0 || math.Sqrt(squares) > lattice {
				t.Errorf("the record adds a vector of norm %v lattice steps", math.Sqrt(squares))
			}
			if microbatch == 30 && threads == 1 { // clip factors depend on the size of a microbatch
				other.Microbatch, other.Train = 30, c.Train
				all, _ := sumsOf(t, other)
				for v := range all {
					for i := range all[v] {
						if d := float64(rest[v][i]) + float64(own[v][i]) - float64(all[v][i]); math.Abs(d) > 0.02 { // each contribution has a norm of at most 1 and is rounded at random: its rows have 16 bits
							t.Fatalf("parameter %d, element %d: %v with the record, %v without it, and it adds %v", v, i, all[v][i], rest[v][i], own[v][i])
						}
					}
				}
			}
		}
	}
}

func sequence(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// The ledger states the statistic in each lot that releases it, and the plan's ε is that of the
// ledger.
func TestBatchNorm_IsAccounted(t *testing.T) {
	c := batchNormConfig(t, 5)
	c.Sampling, c.Steps, c.Budget.Delta = Sampling{Lot: 6}, 6, 1e-3
	c.Statistics[0].Every = 2
	r := newRun(t, c)
	planned, err := r.PlannedEpsilon()
	if err != nil {
		t.Fatal(err)
	}
	before := runningOf(t, r)
	moved := 0
	trainRun(t, r, func(p *Progress) error {
		if now := runningOf(t, r); !slices.Equal(now, before) {
			before = now
			moved++
			if p.Lot%2 != 0 {
				t.Errorf("lot %d moved the running statistics and did not release", p.Lot)
			}
		}
		return nil
	})
	spent, err := r.Spent("rdp")
	if err != nil || math.Abs(spent.Epsilon/planned-1) > 1e-9 || moved != 3 {
		t.Errorf("spent %v, planned %v; %d releases; %v", spent.Epsilon, planned, moved, err)
	}
	r.Close()
	releases := 0
	for i, lot := range lotsOf(readLedger(t, c.Files.Ledger)) {
		for _, q := range lot.Queries {
			if q.Group == "batch-statistics" {
				releases++
				if i%2 == 0 || q.Sensitivity != math.Sqrt(10) || math.Abs(q.Noise-5) > 1e-6 {
					t.Errorf("lot %d: %+v", i, q)
				}
			}
		}
	}
	without := c
	without.Statistics = nil
	bare, err := accountant.Epsilon(without.PlannedHistory(), 1e-3, "rdp")
	if err != nil || releases != 3 || !(planned > bare.Epsilon) {
		t.Errorf("%d releases in the ledger; ε = %v with the statistic, %v without; %v", releases, planned, bare.Epsilon, err)
	}
}

// A run that is resumed has the running statistics that it had, and goes on as one that was not
// interrupted: without privacy and with all records in each lot nothing is random.
func TestBatchNorm_Resume(t *testing.T) {
	c := batchNormConfig(t, 0)
	c.Mechanism, c.Steps = Mechanism{NonPrivate: true}, 6
	c.Statistics[0].Sensitivity = 1e100
	c.Files = Files{CheckpointFolder: t.TempDir()}
	whole := newRun(t, c)
	trainRun(t, whole, nil)
	want := flatWeights(t, whole)
	c.Files.CheckpointFolder = t.TempDir()
	part := newRun(t, c)
	trainRun(t, part, func(p *Progress) error {
		if p.Lot == 3 {
			return ErrStop
		}
		return nil
	})
	stopped := runningOf(t, part)
	part.Close()
	again, err := Resume(c)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := runningOf(t, again); !slices.Equal(got, stopped) || got[0] == 0 {
		t.Errorf("resumed with %v, it had %v", got, stopped)
	}
	trainRun(t, again, nil)
	if !slices.Equal(flatWeights(t, again), want) {
		t.Error("the resumed run has other weights or running statistics")
	}
}

// With a moving average of the weights, the result has the average of the running statistics with the
// same shares, on the device and on the host. Training computes with the last ones. A resumed run goes on
// with both.
func TestBatchNorm_AveragesRunningStatistics(t *testing.T) {
	const decay = 0.7
	for _, kind := range []string{"sgd", "adambc"} {
		rule, err := optim.ParseRule(kind)
		if err != nil {
			t.Fatal(err)
		}
		c := batchNormConfig(t, 5)
		c.Steps = 6
		c.Optimization = Optimization{Optimizer: rule, Schedule: optim.Schedule{Base: 0.05}, Average: optim.Average{Decay: decay}}
		c.Files.CheckpointFolder = t.TempDir()
		r := newRun(t, c)
		total, shares := map[string][]float64{}, 0.0
		trainRun(t, r, func(p *Progress) error {
			shares = decay*shares + 1
			result := map[string][]float32{}
			all, err := r.Parameters()
			for _, p := range all {
				result[p.Name] = p.Values
			}
			for k, part := range r.network.Running.Parts(false) {
				if !slices.Equal(part.Values, r.network.Executable.Input(len(c.Train.Columns())+k)) {
					t.Errorf("lot %d: the network computes with other values of %s than the last", p.Lot, part.Name)
				}
				if total[part.Name] == nil {
					total[part.Name] = make([]float64, len(part.Values))
				}
				for i, v := range part.Values {
					sum := &total[part.Name][i]
					*sum = decay**sum + float64(v)
					if got, want := float64(result[part.Name][i]), *sum/shares; math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
						t.Errorf("%s, lot %d: number %d of %s is %v, want %v", kind, p.Lot, i, part.Name, got, want)
					}
				}
			}
			return err
		})
		numbers := slices.Clone(r.network.Running.All())
		values := len(numbers) / 2
		if slices.Equal(numbers[:values], numbers[values:]) {
			t.Error("the average is the last values: the test has no power")
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		resumed := resumeRun(t, c)
		if !slices.Equal(resumed.network.Running.All(), numbers) {
			t.Errorf("%s: resumed with other running statistics or another average", kind)
		}
		if err := resumed.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// An evaluator computes with the running statistics that a run returns, and every device trains the
// same network.
func TestBatchNorm_DevicesAndEvaluation(t *testing.T) {
	train := func(device string) []float32 {
		c := batchNormConfig(t, 5)
		c.Device.Name, c.Mechanism.Arithmetic = device, FloatArithmetic
		r := newRun(t, c)
		trainRun(t, r, nil)
		parameters, err := r.Parameters()
		if err != nil {
			t.Fatal(err)
		}
		e, err := NewEvaluator(r.Network(), DeviceOptions{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		before, err := e.Predictions(Values(parameters), c.Train)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parameters {
			if p.Name == "second.running_var" {
				p.Values[0] *= 4
			}
		}
		after, err := e.Predictions(Values(parameters), c.Train)
		if err != nil || slices.Equal(before[0], after[0]) {
			t.Errorf("the output does not depend on a running statistic: %v", err)
		}
		return flatWeights(t, r)
	}
	if d := relativeDistance(train("cpu"), train("gorgonia")); d > 1e-4 {
		t.Errorf("the weights and running statistics of two devices differ by %v", d)
	}
}

// Noise moves the running statistics and never makes them impossible.
func TestRunningStatistics_StayFinite(t *testing.T) {
	c := batchNormConfig(t, 1e6)
	c.Steps = 40
	r := newRun(t, c)
	trainRun(t, r, nil)
	for i, v := range runningOf(t, r) {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) || i >= 2 && !(f > 0) {
			t.Errorf("running statistic %d is %v", i, v)
		}
	}
}

func TestBatchNorm_Refused(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"add engine.BatchStatistics": func(c *Config) { c.Statistics = nil },
		"needs 0":                    func(c *Config) { c.Network, c.Train = mlp, mlpExamples(30, 1) },
		"give one engine.BatchStatistics": func(c *Config) {
			s := c.Statistics[0]
			s.Name = "other"
			c.Statistics = append(c.Statistics, s)
		},
		"give a positive number": func(c *Config) { c.Statistics[0].Noise = 0 },
		"variance is a finite":   func(c *Config) { c.Network = withVariance(-1) },
		"no parameters": func(c *Config) {
			c.Mechanism.Clipping = []clip.Group{{Name: "running", Parameters: []string{"*.running_mean", "*"}, Bound: clip.Constant(1)}}
		},
	} {
		c := batchNormConfig(t, 5)
		change(&c)
		r, err := New(c)
		if err == nil {
			r.Close()
		}
		if want == "no parameters" { // running statistics are in no group
			if err == nil {
				t.Error("a group of running statistics was accepted")
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := BatchStatistics(mlp, 0, 1); err == nil || !strings.Contains(err.Error(), "no batch normalization") {
		t.Errorf("a network without it: %v", err)
	}
}

// withVariance builds pictures with another initial variance.
func withVariance(v float32) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		net, err := pictures(batch)
		if err != nil {
			return nil, err
		}
		values := net.BatchNorms[0].Variance.Value().(*perexample.InitialValue).Data().([]float32)
		values[0] = v
		return net, nil
	}
}
