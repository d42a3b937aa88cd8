package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// requireNoFiles checks that the run wrote no files.
func requireNoFiles(t *testing.T, c Config) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(c.Files.Ledger))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("%s was left behind", e.Name())
	}
}

// uncheckedSet is a set without any checks.
type uncheckedSet struct {
	columns []data.Column
	values  [][]float32
}

func (s uncheckedSet) Len() int               { return len(s.values[0]) / s.columns[0].Size() }
func (s uncheckedSet) Columns() []data.Column { return s.columns }
func (s uncheckedSet) Read(dst [][]float32, rows []int) error {
	for k, c := range s.columns {
		for i, r := range rows {
			copy(dst[k][i*c.Size():(i+1)*c.Size()], s.values[k][r*c.Size():])
		}
	}
	return nil
}

func (s uncheckedSet) with(k, i int, v float32) uncheckedSet {
	s.values[k][i] = v
	return s
}

func newUncheckedSet() uncheckedSet {
	s := uncheckedSet{mlpExamples(20, 1).Columns(), [][]float32{make([]float32, 20*features), make([]float32, 20)}}
	return s
}

// networkEndingIn is a network with an error at its end.
func networkEndingIn(end func(n *layer.Builder, x, label *G.Node)) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		end(n, n.Input("x", features), n.Input("label"))
		return n.Network()
	}
}

// Each invalid input gives an error of one line, before anything is written.
func TestNew_Refuses(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	dense := func(n *layer.Builder, x *G.Node) *G.Node { return layer.Dense(n, x, "fc", classes, layer.Identity) }
	for _, test := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Network = nil }, "no network"},
		{func(c *Config) { c.Augmentation.Views = -1 }, "Augmentation.Views -1"},
		{func(c *Config) { c.Augmentation.Views = 2 }, "Transform is not set"},
		{func(c *Config) { c.Augmentation.Transform = func([][]float32, *rand.Rand) {} }, "the number of views"},
		{func(c *Config) { c.Augmentation = Augmentation{1 << 20, func([][]float32, *rand.Rand) {}} }, "at most 4096"},
		{func(c *Config) {
			c.Augmentation = Augmentation{2, func(view [][]float32, _ *rand.Rand) { view[2][0] = 0 }}
		}, "(runtime error: index out of range [2] with length 2); check that it reads only columns that the data have"},
		{func(c *Config) { c.Network = func(int) (*perexample.Network, error) { return mlp(3) } }, "built for 3 examples"},
		{func(c *Config) { c.Network = func(int) (*perexample.Network, error) { panic("mine") } }, "mine"},
		{func(c *Config) { c.Train = nil }, "no training data"},
		{func(c *Config) { c.Train = uncheckedSet{newUncheckedSet().columns, [][]float32{nil, nil}} }, "no training data"},
		{func(c *Config) { c.Train = newUncheckedSet().with(0, 7, float32(nan)) }, "example 1, column \"x\""},
		{func(c *Config) { c.Train = newUncheckedSet().with(0, 7, float32(inf)) }, "example 1, column \"x\""},
		{func(c *Config) { c.Train = newUncheckedSet().with(1, 4, classes) }, "example 4, column \"label\""},
		{func(c *Config) { c.Train = newUncheckedSet().with(1, 4, -1) }, "example 4, column \"label\""},
		{func(c *Config) { c.Train = newUncheckedSet().with(1, 4, 0.5) }, "example 4, column \"label\""},
		{func(c *Config) { c.Train = newColumnTable(20, zeros, 5) }, "2 inputs and the data 1 columns"},
		{func(c *Config) { c.Train = newColumnTable(20, zeros, 4, 1) }, "takes 5 numbers"},
		{func(c *Config) { c.Records.Examples = -1 }, "Records.Examples is -1"},
		{func(c *Config) { c.Records.Users = true }, "user"},
		{func(c *Config) { c.Train, c.Records.Users = examplesOfUsers(), true }, "the number of examples of a user"},
		{func(c *Config) { c.Sampling.Lot = 61 }, "Sampling.Lot 61: give a number from 1 to 60"},
		{func(c *Config) { c.Sampling.Lot, c.Records.Examples = 12, 10 }, "Sampling.Lot 12: give a number from 1 to 6,"},
		{func(c *Config) { c.Sampling.Lot = -1 }, "Sampling.Lot -1"},
		{func(c *Config) { c.Sampling.Lot = 0 }, "no lot is given"},
		{func(c *Config) { c.Sampling.Rate = 0.5 }, "exclude each other"},
		{func(c *Config) { c.Sampling.Lot, c.Sampling.Rate = 0, 1.1 }, "Rate 1.1"},
		{func(c *Config) { c.Sampling.Lot, c.Sampling.Rate = 0, -0.1 }, "Rate -0.1"},
		{func(c *Config) { c.Sampling.Lot, c.Sampling.Rate = 0, nan }, "Rate NaN"},
		{func(c *Config) { c.Sampling.Policy, c.Sampling.Lot, c.Sampling.Rate = sample.PolicyFixed, 0, -0.1 }, "Rate -0.1"},
		{func(c *Config) { c.Sampling.Policy, c.Sampling.Lot, c.Sampling.Rate = sample.PolicyFixed, 0, 1.001 }, "Rate 1.001"},
		{func(c *Config) { c.Sampling.Policy = "poison" }, "poisson"},
		{func(c *Config) { c.Sampling.Population = -1 }, "Sampling.Population -1"},
		{func(c *Config) { c.Sampling.Population, c.Sampling.Policy = 100, sample.PolicyFixed }, "makes the number of records public"},
		{func(c *Config) { c.Sampling.Population, c.Sampling.Policy = 100, sample.PolicyShuffle }, "makes the number of records public"},
		{func(c *Config) { c.Sampling.Population, c.Sampling.Lot = 100, 101 }, "Sampling.Lot 101: give a number from 1 to 100"},
		{func(c *Config) { c.Steps = 0 }, "Steps 0: give at least 1"},
		{func(c *Config) { c.Microbatch = -1 }, "Microbatch -1"},
		{func(c *Config) { c.Device.Threads = -1 }, "-1 threads"},
		{func(c *Config) { c.Device.Threads = math.MaxInt }, "at most 65536"},
		{func(c *Config) { c.Files.CheckpointInterval = -1 }, "checkpoint every"},
		{func(c *Config) { c.Device.Name = "tpu" }, "auto, cpu"},
		{func(c *Config) { c.Device.Name = "cuda:77" }, "cuda:77"},
		{func(c *Config) { c.Mechanism.NoiseMultiplier = 0 }, "Mechanism.NonPrivate"},
		{func(c *Config) { c.Mechanism.NoiseMultiplier = -1 }, "NoiseMultiplier -1"},
		{func(c *Config) { c.Mechanism.NoiseMultiplier = nan }, "NoiseMultiplier NaN"},
		{func(c *Config) { c.Mechanism.NoiseMultiplier = inf }, "NoiseMultiplier +Inf"},
		{func(c *Config) { c.Mechanism.NoiseMultiplier = 1e-45 }, "out of the range of float32"},
		{func(c *Config) { c.Mechanism.NoiseMultiplier = 1e40 }, "out of the range of float32"},
		{func(c *Config) { c.Mechanism.NoiseMultiplierAt = func(int) float64 { return 1 } }, "both a noise"},
		{func(c *Config) {
			c.Mechanism.NoiseMultiplier, c.Mechanism.NoiseMultiplierAt = 0, func(lot int) float64 { return float64(3 - lot) }
		}, "lot 3: noise multiplier 0:"},
		{func(c *Config) { c.Mechanism.Allocation = "equal" }, "proportional"},
		{func(c *Config) { c.Mechanism.Clipping = clip.Flat(clip.Constant(0), nil) }, "Bound 0"},
		{func(c *Config) { c.Mechanism.Clipping = clip.Flat(clip.Constant(-1), nil) }, "Bound -1"},
		{func(c *Config) { c.Mechanism.Clipping = clip.Flat(clip.Constant(nan), nil) }, "Bound NaN"},
		{func(c *Config) { c.Mechanism.Clipping = clip.Flat(clip.Constant(inf), nil) }, "Mechanism.NonPrivate"},
		{func(c *Config) {
			c.Mechanism.Clipping = clip.PerParameter([]string{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}, clip.Constant(inf), nil)
		}, "Mechanism.NonPrivate"},
		{func(c *Config) {
			c.Mechanism.Clipping = clip.Flat(clip.Schedule(func(i int) float64 { return float64(4 - i) }), nil)
		}, "lot 4"},
		{func(c *Config) {
			c.Mechanism.Clipping = []clip.Group{{Name: "a", Parameters: []string{"fc1*"}, Bound: clip.Constant(1)}}
		}, "fc2.weight"},
		{func(c *Config) {
			c.Mechanism.Clipping = []clip.Group{{Name: "a", Parameters: []string{"fc3.weight", "*"}, Bound: clip.Constant(1)}}
		}, "most similar"},
		{func(c *Config) {
			c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.2, Noise: 0.1}, nil)
		}, "leaves no budget"},
		{func(c *Config) {
			c.Statistics = []Statistic{{Name: "gradient", Size: 1, Sensitivity: 1, Noise: 1, Of: func([]float64, []load.Example) {}}}
		}, "two released sums"},
		{func(c *Config) { c.Statistics = []Statistic{MeanLoss(1, 1), MeanLoss(1, 1)} }, "two released sums"},
		{func(c *Config) { c.Statistics = []Statistic{MeanLoss(1, 0)} }, "the noise is 0"},
		{func(c *Config) { c.Statistics = []Statistic{LotSize(1)}; c.Statistics[0].Every = -1 }, "every -1th lot"},
		{func(c *Config) { c.Statistics = []Statistic{LotSize(1)}; c.Statistics[0].Every = 6 }, "and the run has 5"},
		{func(c *Config) { c.Statistics = []Statistic{MeanLoss(inf, 1)} }, "the sensitivity is +Inf"},
		{func(c *Config) { c.Statistics = []Statistic{MeanLoss(1e101, 1e101)} }, "too large"},
		{func(c *Config) { c.Statistics = []Statistic{MeanLoss(1, inf)} }, "the noise is +Inf"},
		{func(c *Config) { c.Statistics = []Statistic{{}} }, "needs a name"},
		{func(c *Config) { c.Statistics = []Statistic{{Name: "s", Size: 1, Sensitivity: 1, Noise: 1}} }, "and a function"},
		{func(c *Config) { c.Statistics = []Statistic{FeatureMeans(0, 0, 1, 1)} }, "needs a name, a size"},
		{func(c *Config) { c.Statistics = []Statistic{FeatureMeans(0, math.MaxInt, 1, 1)} }, "is too large"},
		{func(c *Config) { c.Statistics = []Statistic{FeatureMeans(0, features+1, 1, 1)} }, "(a column of another size); check that it reads only columns that the data have"},
		{func(c *Config) {
			c.Network, c.Train, c.Statistics = linearNetwork(features), newColumnTable(60, zeros, features), []Statistic{Accuracy(0, 1)}
		}, "outputs or losses that the network does not keep"},
		{func(c *Config) { c.Budget.Delta = 1 }, "Budget.Delta 1"},
		{func(c *Config) { c.Budget.Delta = nan }, "Budget.Delta NaN"},
		{func(c *Config) { c.Budget.Delta = 0.1 }, "permits publishing one record in full"},
		{func(c *Config) { c.Budget.Accountant = "rpd" }, "rdp"},
		{func(c *Config) {
			c.Mechanism.NoiseMultiplier, c.Mechanism.NoiseMultiplierAt, c.Budget.StopAtEpsilon, c.Budget.Accountant = 0, func(int) float64 { return 1 }, 3, "gdp"
		}, "cannot decide when to stop"},
		{func(c *Config) { c.Budget.StopAtEpsilon = -1 }, "Budget.StopAtEpsilon"},
		{func(c *Config) { c.Budget.StopAtEpsilon = nan }, "Budget.StopAtEpsilon"},
		{func(c *Config) { c.Optimization.Optimizer = optim.Optimizer{Kind: "adamn"} }, "adam"},
		{func(c *Config) { c.Optimization.Schedule.Base = 0 }, "learning rate"},
		{func(c *Config) { c.Optimization.Schedule.Shape = "cosin" }, "cosine"},
		{func(c *Config) { c.Optimization.LearningRateAt = func(int) float64 { return 1 } }, "both a schedule"},
		{func(c *Config) {
			c.Optimization.Schedule.Base, c.Optimization.LearningRateAt = 0, func(lot int) float64 { return float64(3 - lot) }
		}, "lot 4: a learning rate of -1"},
		{func(c *Config) { c.Optimization.LearningRateMultiplier = multiplierOf("fc1.bias", 0) }, "parameter fc1.bias: 0 times the learning rate"},
		{func(c *Config) { c.Optimization.LearningRateMultiplier = multiplierOf("fc2.weight", -1) }, "parameter fc2.weight: -1 times the learning rate"},
		{func(c *Config) { c.Optimization.LearningRateMultiplier = multiplierOf("fc2.weight", nan) }, "parameter fc2.weight: NaN times the learning rate"},
		{func(c *Config) { c.Optimization.LearningRateMultiplier = multiplierOf("fc2.weight", inf) }, "parameter fc2.weight: +Inf times the learning rate"},
		{func(c *Config) { c.Optimization.WeightDecayMultiplier = multiplierOf("fc1.weight", -1) }, "parameter fc1.weight: -1 times the weight decay"},
		{func(c *Config) { c.Optimization.WeightDecayMultiplier = multiplierOf("fc1.weight", nan) }, "parameter fc1.weight: NaN times the weight decay"},
		{func(c *Config) { c.Optimization.WeightDecayMultiplier = multiplierOf("fc1.weight", inf) }, "parameter fc1.weight: +Inf times the weight decay"},
		{func(c *Config) { c.Optimization.Optimizer = optim.Optimizer{Kind: optim.KindMomentum} }, "which is sgd"},
		{func(c *Config) { c.Optimization.Average.Decay = 1 }, "average"},
		{func(c *Config) { c.Files.Ledger = "" }, "ledger"},
		{func(c *Config) { c.Files.Ledger = filepath.Join(c.Files.Ledger, "no", "such", "folder") }, "folder"},
		{func(c *Config) {
			c.Network = networkEndingIn(func(n *layer.Builder, x, label *G.Node) {
				logits := layer.Dense(n, x, "fc", classes-1, layer.Identity)
				n.SetLoss(layer.CrossEntropy(n, logits, label), logits)
			})
		}, "3 classes"},
		{func(c *Config) {
			c.Network = networkEndingIn(func(n *layer.Builder, x, label *G.Node) { // the loss does not determine the outputs
				scores := layer.Dense(n, x, "fc", classes-1, layer.Identity)
				wrong := n.Try(func() (*G.Node, error) { return G.Sub(G.Must(G.Sum(scores, 1)), label) })
				n.SetLoss(n.Try(func() (*G.Node, error) { return G.Square(wrong) }), scores)
			})
		}, "2 scores, and column label has 3 classes"},
		{func(c *Config) { c.Train = newColumnTable(60, zeros, features, 1) }, "column x1 is a feature: make it a data.Label"},
		{func(c *Config) {
			c.Network = networkEndingIn(func(n *layer.Builder, x, label *G.Node) {
				prediction := dense(n, x)
				n.SetLoss(layer.SquaredError(n, prediction, layer.Embedding(n, layer.Reshape(n, label), "table", classes-1, classes)), prediction)
			})
		}, "input label takes indices below 2, and column label has 3 classes"},
		{func(c *Config) {
			c.Network = networkEndingIn(func(n *layer.Builder, x, label *G.Node) {
				n.Parameter("unused", layer.Constant(1), 3)
				logits := dense(n, x)
				n.SetLoss(layer.CrossEntropy(n, logits, label), logits)
			})
		}, "unused"},
		{func(c *Config) {
			c.Network = networkEndingIn(func(n *layer.Builder, x, label *G.Node) {
				w := n.Parameter("w", layer.Constant(float64(float32(math.NaN()))), features, classes)
				logits := n.Try(func() (*G.Node, error) { return G.Mul(x, w) })
				n.SetLoss(layer.CrossEntropy(n, logits, label), logits)
			})
		}, "parameter w starts with a value that is not finite"},
		{func(c *Config) {
			c.Network = networkEndingIn(func(n *layer.Builder, x, label *G.Node) {
				h := n.Try(func() (*G.Node, error) { return G.HadamardProd(dense(n, x), G.NewConstant(float32(math.NaN()))) })
				n.SetLoss(layer.CrossEntropy(n, h, label), h)
			})
		}, "contains a value that is not finite"},
		{func(c *Config) {
			c.Network = networkEndingIn(func(n *layer.Builder, x, label *G.Node) {
				w := n.Parameter("w", func(*rand.Rand) float64 { panic("nothing to start from") }, features, classes)
				logits := n.Try(func() (*G.Node, error) { return G.Mul(x, w) })
				n.SetLoss(layer.CrossEntropy(n, logits, label), logits)
			})
		}, "nothing to start from"},
		{func(c *Config) {
			c.Network = func(batch int) (*perexample.Network, error) {
				net, err := mlp(batch)
				if err == nil {
					net.Loss = net.Losses
				}
				return net, err
			}
		}, "scalar"},
		{func(c *Config) {
			c.Network = func(batch int) (*perexample.Network, error) {
				net, err := mlp(batch)
				if err == nil {
					net.Loss, err = G.Mean(net.Losses)
				}
				return net, err
			}
		}, "sum"},
		{func(c *Config) {
			c.Network = networkEndingIn(func(n *layer.Builder, x, label *G.Node) {
				mixed := n.Try(func() (*G.Node, error) {
					mean, err := G.Mean(x, 0)
					if err != nil {
						return nil, err
					}
					return G.BroadcastSub(x, mean, nil, []byte{0})
				})
				logits := dense(n, mixed)
				n.SetLoss(layer.CrossEntropy(n, logits, label), logits)
			})
		}, "example"},
		{func(c *Config) {
			c.Network = networkEndingIn(func(n *layer.Builder, x, label *G.Node) {
				w := G.NewTensor(n.Graph(), tensor.Float32, 1, G.WithShape(3), G.WithName("unbound"))
				logits := n.Try(func() (*G.Node, error) { return G.BroadcastAdd(dense(n, x), w, nil, []byte{0}) })
				n.SetLoss(layer.CrossEntropy(n, logits, label), logits)
			})
		}, "unbound"},
	} {
		c := testConfig(t)
		test.change(&c)
		r, err := New(c)
		if err == nil {
			r.Close()
			t.Errorf("nothing refused, want %q", test.want)
			continue
		}
		if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q, want %q in one line", err, test.want)
		}
		if c.Files.Ledger != "" && !strings.Contains(c.Files.Ledger, "such") {
			requireNoFiles(t, c)
		}
	}
}

// An existing ledger or checkpoint is not changed.
func TestNew_KeepsExistingFiles(t *testing.T) {
	c := testConfig(t)
	c.Files.CheckpointFolder = filepath.Join(filepath.Dir(c.Files.Ledger), "checkpoint")
	r := newRun(t, c)
	trainRun(t, r, nil)
	r.Close()
	ledger := readFile(t, c.Files.Ledger)
	for name, change := range map[string]func(*Config){
		"ledger":     func(c *Config) { c.Files.CheckpointFolder = "" },
		"checkpoint": func(c *Config) { c.Files.Ledger += "2" },
		"both":       func(c *Config) {},
	} {
		d := c
		change(&d)
		if _, err := New(d); err == nil {
			t.Errorf("%s: a second run was begun over the first", name)
		}
		if _, err := os.Stat(c.Files.Ledger + "2"); err == nil {
			t.Errorf("%s: a ledger was left behind", name)
		}
	}
	after, err := os.ReadFile(c.Files.Ledger)
	if err != nil || string(after) != string(ledger) {
		t.Errorf("the ledger changed (%v)", err)
	}
}

// The baseline runs without noise, bound or ledger, and has no ε.
func TestNonPrivate_NeedsNoPrivacySettings(t *testing.T) {
	c := testConfig(t)
	c.Mechanism.NonPrivate, c.Mechanism.NoiseMultiplier, c.Mechanism.Clipping = true, 0, nil
	ledger := c.Files.Ledger
	c.Files.Ledger = ""
	r := newRun(t, c)
	trainRun(t, r, func(p *Progress) error {
		if p.Epsilon != 0 {
			t.Errorf("ε = %v", p.Epsilon)
		}
		return nil
	})
	if _, err := r.Spent(""); err == nil || !strings.Contains(err.Error(), "infinite") {
		t.Errorf("error %v", err)
	}
	c.Files.Ledger = ledger
	requireNoFiles(t, c)
	if fmt.Sprint(r.Describe().Parameters[0].Sigma) != "0" {
		t.Error("noise in a run without privacy")
	}
}

// A microbatch beyond the data means all data, and reserves no memory for more. The examples of a
// record are a declared number that does not depend on the data.
func TestNew_HugeCounts(t *testing.T) {
	c := testConfig(t)
	c.Microbatch = math.MaxInt
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if d := r.Describe(); d.Microbatch > c.Train.Len() {
		t.Errorf("%d records at a time, of %d", d.Microbatch, c.Train.Len())
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	c = testConfig(t)
	c.Sampling.Rate, c.Sampling.Lot = 0, 1
	c.Records = Records{Examples: math.MaxInt}
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "Records.Examples is ") {
		t.Errorf("a record of all examples: %v", err)
	}
	c.Records = Records{Examples: 10 * c.Train.Len()}
	if r, err = New(c); err != nil {
		t.Fatal(err)
	}
	if d := r.Describe(); d.PerRecord != c.Records.Examples || d.Records != 1 {
		t.Errorf("%d records of %d examples, want 1 of %d", d.Records, d.PerRecord, c.Records.Examples)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// A network for which no host has memory is refused before anything is written, for a chosen and
// for a given microbatch: each thread compares 2^20 steps with each other.
func TestNew_RefusesTooLargeForHost(t *testing.T) {
	const steps = 1 << 20
	set, err := data.NewTable([]data.Column{
		{Name: "features", Kind: data.Index, Shape: []int{steps}, Classes: 2},
		{Name: "label", Kind: data.Label, Classes: 2},
	}, [][]float32{make([]float32, 4*steps), make([]float32, 4)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for microbatch, want := range map[int]string{0: "a microbatch of one record", 2: "a microbatch of 2 records"} {
		c := testConfig(t)
		c.Train, c.Sampling.Lot, c.Microbatch = set, 2, microbatch
		c.Network = func(batch int) (*perexample.Network, error) {
			n := layer.NewBuilder(batch, 1)
			x := layer.Embedding(n, n.Input("ids", steps), "embedding", 2, 8)
			x = layer.MeanOverTime(n, layer.SelfAttention(n, x, "attention", layer.AttentionOptions{Heads: 1}))
			logits := layer.Dense(n, x, "fc", 2, layer.Identity)
			n.SetLoss(layer.CrossEntropy(n, logits, n.Input("label")), logits)
			return n.Network()
		}
		_, err := New(c)
		if err == nil || !strings.Contains(err.Error(), want+": out of memory: ") {
			t.Errorf("a microbatch of %d: %v", microbatch, err)
		}
		requireNoFiles(t, c)
	}
}

// failingSet is a set whose reads begin to fail.
type failingSet struct {
	data.Set
	gone bool
}

func (l *failingSet) Read(dst [][]float32, rows []int) error {
	if l.gone {
		return errors.New("the share is gone")
	}
	return l.Set.Read(dst, rows)
}

// Data that fail during a run end it with an error that names the lot and the data; the lot is
// not spent.
func TestTrain_DataReadFails(t *testing.T) {
	for name, c := range map[string]Config{"lots": testConfig(t), "projection": projectionConfig(t)} {
		set := &failingSet{Set: c.Train}
		c.Train = set
		r := newRun(t, c)
		set.gone = true
		err := r.Train(context.Background(), nil)
		if err == nil || !strings.HasSuffix(err.Error(), "training data: the share is gone") || r.StepsDone() > 0 {
			t.Errorf("%s: after %d lots %v", name, r.StepsDone(), err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if lots := readLedger(t, c.Files.Ledger).LotCount(); lots > 0 {
			t.Errorf("%s: the ledger contains %d lots", name, lots)
		}
	}
}
