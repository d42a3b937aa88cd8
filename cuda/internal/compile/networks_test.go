//go:build gpu

package compile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/internal/clipping"
	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/noise"
	"github.com/dptrain/dptrain/perexample"
)

// network is a model and its input.
type network struct {
	model   string
	example models.DataSpec
	batch   int
	steps   int
}

// checkpoints is the folder of small checkpoints.
const checkpoints = "../../../models/pretrained/testdata/"

func networks() []network {
	pixels := models.DataSpec{Shape: []int{784}, Classes: 10}
	digits := models.DataSpec{Shape: []int{1, 28, 28}, Classes: 10}
	small := models.DataSpec{Shape: []int{3, 24, 24}, Classes: 10}
	pictures := models.DataSpec{Shape: []int{3, 32, 32}, Classes: 10}
	tiny := models.DataSpec{Shape: []int{3, 4, 4}, Classes: 10}
	text := models.DataSpec{Shape: []int{11}, Vocabulary: 50, Classes: 2}
	short := models.DataSpec{Shape: []int{11}, Vocabulary: 50, Padded: true, Classes: 2}
	language := models.DataSpec{Shape: []int{11}, Vocabulary: 50, Classes: 50, LabelShape: []int{11}}
	return []network{
		{"logistic", pixels, 33, 10},
		{"fourier", models.DataSpec{Shape: []int{13}, Classes: 3}, 33, 10},
		{"mlp:1000", pixels, 5, 10},
		{"mlp:50,dropout=0.5", pixels, 6, 10},
		{"abadi-mlp", models.DataSpec{Shape: []int{60}, Classes: 10}, 37, 10},
		{"digits-cnn", digits, 5, 10},
		{"digits-cnn:norm=batch", digits, 5, 10},
		{"mnist-cnn", digits, 5, 10},
		{"cifar-abadi", small, 2, 10},
		{"cifar-tanh", pictures, 2, 10},
		{"wrn16-4", pictures, 1, 1},
		{"wrn16-4:standardized", tiny, 6, 1},
		{"lstm", text, 5, 10},
		{"gru", short, 5, 10},
		{"bow", short, 7, 10},
		{"embbag", text, 7, 10},
		{"embbag", short, 6, 10},
		{"transformer", language, 3, 10},
		{"transformer:tied", language, 3, 10},
		{"layers:conv=conv2d(8,3);relu;flatten;fc=linear(10)", tiny, 5, 10},
		{"hf:" + checkpoints + "bert", models.DataSpec{Shape: []int{9}, Vocabulary: 16, Padded: true, Classes: 3}, 5, 5},
		{"hf:" + checkpoints + "vit", models.DataSpec{Shape: []int{3, 8, 12}, Classes: 2}, 5, 5},
	}
}

// TestNetworks_MatchCPU trains every model for some steps on the GPU and on the CPU, with
// the same batch and the same noise, and compares the weights.
func TestNetworks_MatchCPU(t *testing.T) {
	device(t)
	tried := map[string]bool{}
	for _, n := range networks() {
		name := fmt.Sprint(n.model, " ", n.batch)
		t.Run(name, func(t *testing.T) {
			if testing.Short() && n.steps == 1 {
				t.Skip("long")
			}
			want := n.train(t, func(p *plan.Program, o plan.Optimizer) (plan.Executable, error) { return cpu.New(p, o, false, 0) })
			got := n.train(t, func(p *plan.Program, o plan.Optimizer) (plan.Executable, error) {
				m, err := New(p, o, false, Options{})
				if m, ok := m.(*Executable); ok && (m.front.runsOnHost() || m.back.runsOnHost()) {
					t.Error("the host computes a part of it")
				}
				return m, err
			})
			within := allowedWeights(t)
			switch n.model {
			case "cifar-tanh": // the CPU adds to its norms what sums by fast transforms round
				within = allowed[FP32].weights
			case "transformer:tied": // Gram matrices in float, of cards that do few doubles
				within = allowed[FP32].weights
			case "mnist-cnn": // a card's what sums over places of all records round, which the CPU makes for each
				within = allowed[FP32].weights
			}
			for v := range want {
				if d := apart(got[v], want[v]); !(d <= within) {
					t.Errorf("vector %d: weights differ by %.2g of the largest", v, d)
				}
			}
		})
		tried[n.base()] = true
	}
	for _, d := range models.Supported() {
		if !tried[d.Name] {
			t.Errorf("model %s is not tried", d.Name)
		}
	}
}

func (n network) base() string {
	for i, c := range n.model {
		if c == ':' {
			return n.model[:i]
		}
	}
	return n.model
}

// apart is the largest difference, relative to the largest element.
func apart(x, y []float32) float64 {
	most, scale := 0.0, 0.0
	for i := range x {
		most = math.Max(most, math.Abs(float64(x[i]-y[i])))
		scale = math.Max(scale, math.Abs(float64(y[i])))
		if x[i] != x[i] {
			return math.NaN()
		}
	}
	return most / math.Max(scale, 1e-3)
}

// compiled returns a private step of the network, and its clipper.
func (n network) compiled(t testing.TB) (*plan.Program, *clipping.Clipper) {
	t.Helper()
	return n.compiledFor(t, false)
}

// compiledFor is compiled for one of the arithmetics.
func (n network) compiledFor(t testing.TB, exact bool) (*plan.Program, *clipping.Clipper) {
	t.Helper()
	build, err := models.Parse(n.model, n.example, 1)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := perexample.Compile(build, n.batch, 1)
	if err != nil {
		t.Fatal(err)
	}
	program, err := plan.LowerTraining(compiled, plan.TrainingOptions{Norms: true, Output: true, Observed: true, Exact: exact})
	if err != nil {
		t.Fatal(err)
	}
	return program, newClipper(t, program)
}

// newClipper clips all parameters of a program together, to 1.
func newClipper(t testing.TB, p *plan.Program) *clipping.Clipper {
	t.Helper()
	var names []string
	for _, v := range p.Parameters {
		names = append(names, v.Name)
	}
	accuracy := clipping.Float32Accuracy
	if p.Exact {
		accuracy = clipping.LatticeAccuracy
	}
	clipper, err := clipping.NewClipper(names, clip.Flat(clip.Constant(1), nil), accuracy)
	if err != nil {
		t.Fatal(err)
	}
	return clipper
}

// train returns the weights after some private steps on one batch.
func (n network) train(t *testing.T, open func(*plan.Program, plan.Optimizer) (plan.Executable, error)) [][]float32 {
	t.Helper()
	return n.trainWith(t, false, open)
}

// trainWith is train with one of the arithmetics.
func (n network) trainWith(t *testing.T, exact bool, open func(*plan.Program, plan.Optimizer) (plan.Executable, error)) [][]float32 {
	t.Helper()
	program, _ := n.compiledFor(t, exact)
	return n.trainProgram(t, program, open)
}

// trainProgram is train with a program that has the network's inputs.
func (n network) trainProgram(t *testing.T, program *plan.Program, open func(*plan.Program, plan.Optimizer) (plan.Executable, error)) [][]float32 {
	t.Helper()
	clipper, o := newClipper(t, program), plan.Optimizer{Kind: plan.SGD}
	m, err := open(program, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	n.fill(m)
	for k := 2; m.Observed(k-2) != nil; k++ { // running statistics, as many as are observed
		for i := range m.Input(k) {
			m.Input(k)[i] = float32(k%2) + float32(i%3)/4
		}
	}
	var squared, factors [][]float32
	release := plan.Release{Source: noise.NewSeeded(1), Scale: 1 / float64(n.batch), Optimizer: o, Rate: 0.1}
	for v := range program.Parameters {
		squared, factors = append(squared, m.SquaredNorms(v)), append(factors, m.ClipFactors(v))
		release.Sigma = append(release.Sigma, 0.1)
		if c := m.Contributions(); c != nil { // for a bound of 1
			c.Steps[v], release.Sigma[v] = plan.Bound, 0.1*plan.Bound
			release.Unit = append(release.Unit, 1.0/plan.Bound)
		}
	}
	for step := range n.steps {
		if err := m.Forward(); err != nil {
			t.Fatal(err)
		}
		if err := clipper.BeginLot(step); err != nil {
			t.Fatal(err)
		}
		if err := clipper.ComputeFactors(factors[:1], squared, n.batch); err != nil {
			t.Fatal(err)
		}
		for _, f := range factors[1:] {
			copy(f, factors[0])
		}
		if err := m.AddClippedSums(); err != nil {
			t.Fatal(err)
		}
		release.Step, release.Lot = release.Step+1, release.Lot+1
		if err := m.Release(&release); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.SyncState(); err != nil {
		t.Fatal(err)
	}
	var weights [][]float32
	for k := 0; m.Observed(k) != nil; k++ {
		weights = append(weights, append([]float32(nil), m.Observed(k)...))
	}
	for _, w := range m.State().Weights {
		weights = append(weights, append([]float32(nil), w...))
	}
	return weights
}

// fill writes normals or indices, and labels, to an executable's inputs.
func (n network) fill(m plan.Executable) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range len(m.MaskSeed()) / op.MaskSeedWidth {
		op.WriteMaskSeed(m.MaskSeed()[i*op.MaskSeedWidth:], uint64(i), 1)
	}
	for i := range m.Input(0) {
		switch v := n.example.Vocabulary; {
		case n.example.Padded:
			m.Input(0)[i] = float32(max(-1, r.IntN(2*v)-v))
		case v > 0:
			m.Input(0)[i] = float32(r.IntN(v))
		default:
			m.Input(0)[i] = float32(r.NormFloat64())
		}
	}
	for i := range m.Input(1) {
		m.Input(1)[i] = float32(r.IntN(n.example.Classes))
	}
}
