package engine

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/host/memory"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// wideNetwork has a square weight for a number of units, and counts the numbers drawn for it.
func wideNetwork(units int, drawn *int) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		x, labels := n.Input("x", features), n.Input("label")
		h := layer.Dense(n, x, "fc1", units, layer.Tanh)
		square := n.Parameter("square", func(r *rand.Rand) float64 { *drawn++; return r.NormFloat64() }, units, units)
		h = n.Try(func() (*G.Node, error) { return G.Mul(h, square) })
		logits := layer.Dense(n, h, "fc2", classes, layer.Identity)
		n.SetLoss(layer.CrossEntropy(n, logits, labels), logits)
		return n.Network()
	}
}

// Weights are drawn once, for the executable that trains them. Apart from weights, sums and
// optimizer state nothing of their size is allocated: not for checks, checkpoints, evaluation or
// resumption.
func TestLargeNetwork_AllocatesWeightsOnce(t *testing.T) {
	const units = 2000
	drawn, each := 0, uint64(4*units*units)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.TotalAlloc
	allocated := func(what string, most uint64) {
		t.Helper()
		runtime.ReadMemStats(&m)
		if got := m.TotalAlloc - before; got > most {
			t.Errorf("%s allocated %d bytes, the weights being %d", what, got, each)
		}
		if drawn != units*units {
			t.Errorf("%s drew %d numbers, the weights being %d", what, drawn, units*units)
		}
		before = m.TotalAlloc
	}

	c := checkpointedConfig(t)
	c.Network, c.Steps, c.Files.CheckpointInterval, c.Optimization.Average.Decay = wideNetwork(units, &drawn), 8, 1, 0
	c.Optimization.Optimizer = optim.Optimizer{Kind: optim.KindMomentum, Momentum: 0.9}
	c.Microbatch = 2
	r := newRun(t, c)
	allocated("New", 4*each+each/2) // sums are integers of 64 bits
	e := newTestEvaluator(t, r.Network())
	score := func(*Progress) error {
		p, err := r.BorrowParameters()
		if err != nil {
			return err
		}
		_, err = e.Score([][]float32{p[0].Values, p[1].Values, p[2].Values, p[3].Values, p[4].Values}, c.Train)
		return err
	}
	trainRun(t, r, score)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	allocated("training", each) // of workspaces and the evaluator's batch: with a copy of the weights, more is allocated
	want := flatWeights(t, r)
	allocated("a copy", 8*each)

	c.Steps++
	drawn = 0
	r = resumeRun(t, c)
	allocated("Resume", 4*each+each/2)
	for i, w := range flatWeights(t, r) {
		if w != want[i] {
			t.Fatalf("weight %d is %v, was %v", i, w, want[i])
		}
	}
}

// The result of Parameters stays unchanged; that of BorrowParameters does not.
func TestParameters_AreCopied(t *testing.T) {
	r := newRun(t, testConfig(t))
	kept, err := r.Parameters()
	if err != nil {
		t.Fatal(err)
	}
	standing, err := r.BorrowParameters()
	if err != nil {
		t.Fatal(err)
	}
	was := kept[0].Values[0]
	trainRun(t, r, nil)
	if kept[0].Values[0] != was || standing[0].Values[0] == was {
		t.Errorf("after training a weight of %v is %v in the copy and %v in the borrowed parameters", was, kept[0].Values[0], standing[0].Values[0])
	}
}

// A network that does not fit is refused before a weight is drawn.
func TestLargeNetwork_RefusedBeforeWeights(t *testing.T) {
	const units = 46000
	// It needs five times the weights; other allocations vary during this test.
	if memory.Available().Fits(3 * 4 * units * units) {
		t.Skip("this host may have memory for it")
	}
	drawn := 0
	c := testConfig(t)
	c.Network, c.Optimization.Average.Decay = wideNetwork(units, &drawn), 0.99
	c.Optimization.Optimizer = optim.Optimizer{Kind: optim.KindAdam, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
	if _, err := New(c); !errors.Is(err, plan.ErrOutOfMemory) || drawn > 0 {
		t.Errorf("error %v after %d draws", err, drawn)
	}
}

// Weights that fill the caches themselves are read once per microbatch: a smaller microbatch
// would only read them more often.
func TestMicrobatch_NotReducedForWeights(t *testing.T) {
	drawn := 0
	c := testConfig(t)
	c.Sampling.Lot, c.Network = 55, wideNetwork(3300, &drawn) // 87 MB with the sums
	if p := newRun(t, c).network.Program; p.Records != 60 || p.Bytes() < 72<<20 {
		t.Errorf("%d records in %d bytes", p.Records, p.Bytes())
	}
}
