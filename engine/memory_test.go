package engine

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// A lot allocates nothing, for every mechanism, record unit and release. Lines of the ledger are
// not counted: their number depends on the disk, and lots that need none allocate nothing for
// it.
func TestLot_AllocatesNothing(t *testing.T) {
	label := data.Column{Kind: data.Label, Classes: classes}
	for name, change := range map[string]func(*Config){
		"plain":   func(c *Config) {},
		"fixed":   func(c *Config) { c.Sampling.Policy = sample.PolicyFixed },
		"shuffle": func(c *Config) { c.Sampling.Policy = sample.PolicyShuffle },
		"users": func(c *Config) {
			c.Train, c.Records, c.Sampling.Lot = examplesOfUsers(), Records{Users: true, Examples: 3}, 5
		},
		"groups":     func(c *Config) { c.Mechanism.Clipping = perParameterClipping(clip.Constant(1)) },
		"normalised": func(c *Config) { c.Mechanism.Clipping = clip.Flat(clip.Constant(1), clip.Normalized{Gamma: 0.01}) },
		"statistics": func(c *Config) {
			c.Statistics = []Statistic{Accuracy(1, 2), MeanLoss(1, 2), ClassCounts(1, label, 2), FeatureMeans(0, features, 1, 2)}
		},
		"adam and average": func(c *Config) {
			c.Optimization.Optimizer = optim.Optimizer{Kind: optim.KindAdam, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
			c.Optimization.Average.Decay = 0.99
		},
		"optimizer on the host": func(c *Config) {
			c.Optimization.Optimizer = optim.LowPass{A: []float64{-0.5}, B: []float64{0.25, 0.25}, Base: optim.Optimizer{Kind: optim.KindMomentum, Momentum: 0.9}}
			c.Optimization.Average.Decay = 0.99
		},
		"laplace": func(c *Config) { c.Mechanism.Distribution = LaplaceNoise },
		"paces": func(c *Config) {
			c.Optimization.LearningRateMultiplier, c.Optimization.WeightDecayMultiplier = multiplierOf("fc1.bias", 2), multiplierOf("fc2.weight", 0)
		},
		"views": func(c *Config) {
			c.Augmentation = Augmentation{3, func(view [][]float32, r *rand.Rand) { view[0][0] += r.Float32() }}
		},
		"frozen":      func(c *Config) { c.Network = withFrozen("fc1", mlp) },
		"dropout":     func(c *Config) { c.Network = mlpWithDropout(0.5) },
		"threads":     func(c *Config) { c.Device.Threads = 2 },
		"budget":      func(c *Config) { c.Budget.StopAtEpsilon = 1e4 },
		"non-private": func(c *Config) { c.Mechanism.NonPrivate = true },
		"adaptive": func(c *Config) {
			c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.1, Noise: 5}, nil)
		},
		"exact": func(c *Config) {
			c.Mechanism.Arithmetic = ExactArithmetic
			c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.1, Noise: 5}, nil)
			c.Statistics = []Statistic{Accuracy(1, 2), FeatureMeans(0, features, 1, 2)}
		},
		"bag of n-grams": func(c *Config) {
			c.Mechanism.Arithmetic = ExactArithmetic
			c.Network, c.Train = bagOfNgrams(t, c.Train.Len())
		},
		"moving": func(c *Config) {
			c.Mechanism.Clipping = perParameterClipping(clip.Schedule(func(lot int) float64 { return 1 / float64(lot+1) }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := testConfig(t)
			c.Steps, c.Microbatch = 3000, 5
			change(&c)
			r := newRun(t, c)
			lot := func() {
				if err := r.runLot(); err != nil {
					t.Fatal(err)
				}
			}
			if r.account != nil {
				r.account.Ledger.Close()
				r.account = nil
			}
			if n := testing.AllocsPerRun(500, lot); n != 0 {
				t.Errorf("%v allocations a lot", n)
			}
		})
	}
}

// bagOfNgrams returns a linear function of sets of indices, and examples of it.
func bagOfNgrams(t *testing.T, examples int) (perexample.Build, data.Set) {
	t.Helper()
	const length, vocabulary = 6, 50
	build, err := models.Parse("bow", models.DataSpec{Shape: []int{length}, Vocabulary: vocabulary, Padded: true, Classes: classes}, 1)
	if err != nil {
		t.Fatal(err)
	}
	indices, labels := make([]float32, examples*length), make([]float32, examples)
	for i := range indices {
		if indices[i] = float32(i * 7 % vocabulary); i%length > i%5 {
			indices[i] = data.Pad
		}
	}
	set, err := data.NewTable([]data.Column{{Name: "features", Kind: data.Index, Shape: []int{length}, Classes: vocabulary}, {Name: "label", Kind: data.Label, Classes: classes}}, [][]float32{indices, labels}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return build, set
}

func perParameterClipping(b clip.Bound) []clip.Group {
	return clip.PerParameter([]string{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}, b, nil)
}

// generatedSet generates its examples when they are read, and measures the heap now and then.
type generatedSet struct {
	count int
	reads int
	most  uint64
}

func (s *generatedSet) Len() int { return s.count }
func (s *generatedSet) Columns() []data.Column {
	return []data.Column{{Name: "x", Shape: []int{features}}, {Name: "label", Kind: data.Label, Classes: classes}}
}

func (s *generatedSet) Read(dst [][]float32, rows []int) error {
	for i, r := range rows {
		for j := range features {
			dst[0][i*features+j] = float32((r*7+j)%11) / 11
		}
		dst[1][i] = float32(r % classes)
	}
	if s.reads++; s.reads%16 == 0 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		s.most = max(s.most, m.HeapAlloc)
	}
	return nil
}

// A lot of 50,000 records needs the memory of one of 1,000.
func TestMemory_IndependentOfLot(t *testing.T) {
	if testing.Short() {
		t.Skip("a lot of 50,000 records takes seconds")
	}
	for _, policy := range []sample.Policy{sample.PolicyPoisson, sample.PolicyFixed, sample.PolicyShuffle} {
		var most [2]uint64
		for k, lot := range []int{1000, 50000} {
			set := &generatedSet{count: 60000}
			c := testConfig(t)
			c.Train, c.Sampling.Lot, c.Steps, c.Microbatch, c.Sampling.Policy = set, lot, 1, 256, policy
			r, err := New(c) // newRun would keep it alive
			if err != nil {
				t.Fatal(err)
			}
			set.most, set.reads = 0, 14 // ignore New, and measure at the second microbatch
			trainRun(t, r, nil)
			r.Close()
			most[k] = set.most
		}
		if most[0] == 0 || most[1] > most[0]+1<<17 {
			t.Errorf("%s: the heap grew from %d to %d bytes", policy, most[0], most[1])
		}
	}
}

// A microbatch that the engine chooses is small where records are large; a requested one is not
// changed.
func TestMicrobatch_ReducedForLargeRecords(t *testing.T) {
	for asked, want := range map[int]int{0: 30, 60: 60} {
		c := testConfig(t)
		c.Sampling.Lot, c.Microbatch = 55, asked
		c.Network = func(batch int) (*perexample.Network, error) {
			n := layer.NewBuilder(batch, 1)
			x, labels := n.Input("x", features), n.Input("label")
			h := layer.Dense(n, x, "fc1", 3<<16, layer.Tanh)
			logits := layer.Dense(n, h, "fc2", classes, layer.Identity)
			n.SetLoss(layer.CrossEntropy(n, logits, labels), logits)
			return n.Network()
		}
		if p := newRun(t, c).network.Program; p.Records != want || (cpu.NewDevice(0).PreferredMicrobatch(p) < p.Records) != (asked != 0) {
			t.Errorf("%d records in %d bytes, %d requested", p.Records, p.Bytes(), asked)
		}
	}
}

// RunDescription.Bytes includes the device's workspace.
func TestDescribe_IncludesWorkspace(t *testing.T) {
	for _, device := range deviceNames() {
		c := testConfig(t)
		c.Device.Name, c.Train, c.Sampling.Lot, c.Sampling.Rate = device, mlpExamples(600, 3), 0, 1 // enough rows to be summed in slices
		r := newRun(t, c)
		workspace := r.network.Executable.WorkspaceBytes()
		if described := r.Describe().Bytes - r.network.Program.Bytes(); described != workspace || workspace == 0 && r.config.Device.resolver().OnGPU() {
			t.Errorf("%s: %d bytes of workspace described, and %d used", device, described, workspace)
		}
	}
}
