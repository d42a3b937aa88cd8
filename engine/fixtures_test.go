package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/noise"
	"github.com/dptrain/dptrain/perexample"

	G "gorgonia.org/gorgonia"
)

const (
	features = 5
	classes  = 3
)

// mlp is a network of four parameters.
func mlp(batch int) (*perexample.Network, error) {
	n := layer.NewBuilder(batch, 1)
	x := n.Input("x", features)
	labels := n.Input("label")
	h := layer.Dense(n, x, "fc1", 7, layer.Tanh)
	logits := layer.Dense(n, h, "fc2", classes, layer.Identity)
	n.SetLoss(layer.CrossEntropy(n, logits, labels), logits)
	return n.Network()
}

// linearNetwork has a parameter w0, w1, … for each size, initially 0. The loss of an example is
// Σ x_k·w_k, so that the gradient of w_k is its column x_k.
func linearNetwork(sizes ...int) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		var total *G.Node
		for k, size := range sizes {
			x := n.Input(fmt.Sprintf("x%d", k), size)
			w := n.Parameter(fmt.Sprintf("w%d", k), layer.Constant(0), size, 1)
			term := n.Try(func() (*G.Node, error) { return G.Mul(x, w) })
			if k == 0 {
				total = term
			} else {
				total = layer.Add(n, total, term)
			}
		}
		n.SetLoss(n.Try(func() (*G.Node, error) { return G.Reshape(total, []int{batch}) }), nil)
		return n.Network()
	}
}

// mlpExamples returns a table for mlp.
func mlpExamples(count int, seed uint64) *data.Table {
	r := rand.New(rand.NewPCG(seed, 1))
	x, labels := make([]float32, count*features), make([]float32, count)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for i := range labels {
		labels[i] = float32(r.IntN(classes))
	}
	return newTable(x, labels, nil)
}

func newTable(x, labels []float32, users []int32) *data.Table {
	t, err := data.NewTable([]data.Column{
		{Name: "x", Shape: []int{len(x) / len(labels)}},
		{Name: "label", Kind: data.Label, Classes: classes},
	}, [][]float32{x, labels}, users)
	if err != nil {
		panic(err)
	}
	return t
}

// newColumnTable returns a table for linearNetwork; value gives number j of column k of example
// i.
func newColumnTable(count int, value func(i, k, j int) float32, sizes ...int) *data.Table {
	var cs []data.Column
	var values [][]float32
	for k, size := range sizes {
		cs = append(cs, data.Column{Name: fmt.Sprintf("x%d", k), Shape: []int{size}})
		v := make([]float32, 0, count*size)
		for i := range count {
			for j := range size {
				v = append(v, value(i, k, j))
			}
		}
		values = append(values, v)
	}
	t, err := data.NewTable(cs, values, nil)
	if err != nil {
		panic(err)
	}
	return t
}

func zeros(i, k, j int) float32 { return 0 }

// floatConfig is testConfig with floating-point arithmetic: for tests that compare devices, or sums
// whose elements a lattice cannot represent.
func floatConfig(t testing.TB) Config {
	c := testConfig(t)
	c.Mechanism.Arithmetic = FloatArithmetic
	return c
}

// testConfig is a small private run that tests vary.
func testConfig(t testing.TB) Config {
	seed := uint64(7)
	return Config{
		Network:      mlp,
		Train:        mlpExamples(60, 3),
		Sampling:     Sampling{Lot: 12},
		Steps:        5,
		Mechanism:    Mechanism{Clipping: clip.Flat(clip.Constant(1), nil), NoiseMultiplier: 1},
		Optimization: Optimization{Schedule: optim.Schedule{Base: 0.1}},
		Seed:         &seed,
		Device:       DeviceOptions{Name: "cpu", Threads: 1},
		Budget:       Budget{Accountant: "rdp"},
		Files:        Files{Ledger: filepath.Join(t.TempDir(), "ledger.jsonl")},
	}
}

func newRun(t testing.TB, c Config) *Run {
	t.Helper()
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func trainRun(t testing.TB, r *Run, observe func(*Progress) error) {
	t.Helper()
	if err := r.Train(context.Background(), observe); err != nil {
		t.Fatal(err)
	}
}

func flatWeights(t testing.TB, r *Run) []float32 {
	t.Helper()
	p, err := r.Parameters()
	if err != nil {
		t.Fatal(err)
	}
	var all []float32
	for _, v := range p {
		all = append(all, v.Values...)
	}
	return all
}

func readLedger(t testing.TB, path string) ledger.History {
	t.Helper()
	h, err := ledger.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// readFile returns the content of a file.
func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// openState opens a checkpoint and reads its state.
func openState(name string) (*state.Checkpoint, error) {
	c, err := state.Open(name)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var s plan.State
	for _, n := range c.Sizes {
		s.Weights = append(s.Weights, make([]float32, n))
		if c.Average {
			s.Average = append(s.Average, make([]float32, n))
		}
		slots := make([][]float32, c.Slots)
		for i := range slots {
			slots[i] = make([]float32, n)
		}
		s.Slots = append(s.Slots, slots)
	}
	return c, c.Load(s)
}

// relativeDistance returns the largest difference of two vectors divided by their largest entry.
func relativeDistance(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	most, scale := 0.0, 1e-30
	for i := range a {
		most = max(most, math.Abs(float64(a[i])-float64(b[i])))
		scale = max(scale, math.Abs(float64(a[i])), math.Abs(float64(b[i])))
		if math.IsNaN(float64(a[i])) || math.IsNaN(float64(b[i])) {
			return math.Inf(1)
		}
	}
	return most / scale
}

// releaseSpy calls a function before each release of an executable.
type releaseSpy struct {
	plan.Executable
	release func(*plan.Release) error
}

func (s *releaseSpy) Release(r *plan.Release) error {
	if err := s.release(r); err != nil {
		return err
	}
	return s.Executable.Release(r)
}

// accumulatedSums returns the accumulators of a run's executable.
func accumulatedSums(r *Run) [][]float32 {
	if r.lot.Mechanism.Contributions != nil {
		return accumulatedIntegers(r)
	}
	var all [][]float32
	for v := range r.network.Program.Parameters {
		switch m := r.network.Executable.(type) {
		case interface{ Sum(v int) []float32 }:
			all = append(all, append([]float32(nil), m.Sum(v)...))
		case interface {
			Sum(v int) ([]float32, error)
		}:
			sum, err := m.Sum(v)
			if err != nil {
				panic(err)
			}
			all = append(all, sum)
		}
	}
	return all
}

// accumulatedIntegers returns the sums of an exact run in the units of the gradient.
func accumulatedIntegers(r *Run) (all [][]float32) {
	for v := range r.network.Program.Parameters {
		var integers []int64
		switch m := r.network.Executable.(type) {
		case interface{ IntegerSum(v int) []int64 }:
			integers = m.IntegerSum(v)
		case interface {
			IntegerSum(v int) ([]int64, error)
		}:
			var err error
			if integers, err = m.IntegerSum(v); err != nil {
				panic(err)
			}
		}
		var sum []float32
		for _, steps := range integers {
			sum = append(sum, float32(float64(steps)*r.lot.Mechanism.Step.Unit[v]))
		}
		all = append(all, sum)
	}
	return all
}

// sumOverHeldOut returns the sum of the held-out records' scores, without noise.
func sumOverHeldOut(c *Config, weights [][]float32) (sum float64, err error) {
	err = c.scoreHeldOut(weights, func(score float64) { sum += score })
	return sum, err
}

// sumOfRecordMeans returns the sum over the records of the mean of their examples' scores.
func sumOfRecordMeans(scores []float64, s data.Set, r Records) (sum float64, err error) {
	index, err := r.index(s)
	if err != nil {
		return 0, err
	}
	index.ForEachMean(scores, func(mean float64) { sum += mean })
	return sum, nil
}

// firstNormal returns the first standard normal of a stream.
func firstNormal(source *noise.Source, stream noise.Stream) (float64, error) {
	var one [1]float64
	err := source.Normals64(one[:], stream, 0)
	return one[0], err
}
