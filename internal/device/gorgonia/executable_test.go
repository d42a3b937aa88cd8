package gorgonia_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/gorgonia"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/noise"
	"github.com/dptrain/dptrain/perexample"
	_ "go4.org/unsafe/assume-no-moving-gc" // with a new Go version, Gorgonia panics at start without it
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

func variable(g *G.ExprGraph, name string, seed uint64, shape ...int) *G.Node {
	r := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, tensor.Shape(shape).TotalSize())
	for i := range x {
		x[i] = float32(r.NormFloat64()) / 2
	}
	v := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(x))
	return G.NewTensor(g, tensor.Float32, len(shape), G.WithShape(shape...), G.WithName(name), G.WithValue(v))
}

// small is a network with a scalar parameter, an output and losses.
func small(batch int) (*perexample.Network, error) {
	g := G.NewGraph()
	x := G.NewMatrix(g, tensor.Float32, G.WithShape(batch, 4), G.WithName("x"))
	y := G.NewVector(g, tensor.Float32, G.WithShape(batch), G.WithName("y"))
	w, b := variable(g, "W", 1, 4, 3), variable(g, "b", 2, 3)
	s := G.NewScalar(g, tensor.Float32, G.WithName("s"), G.WithValue(float32(0.7)))
	h, err := op.Apply(op.Linear{Act: op.Tanh}, x, w, b)
	if err != nil {
		return nil, err
	}
	if h, err = G.HadamardProd(h, s); err != nil {
		return nil, err
	}
	losses, err := op.Apply(op.CrossEntropy{}, h, y)
	if err != nil {
		return nil, err
	}
	loss, err := G.Sum(losses)
	return &perexample.Network{
		Batch: batch, Inputs: G.Nodes{x, y}, Params: G.Nodes{w, b, s}, Loss: loss, Output: h, Losses: losses,
	}, err
}

func close(t *testing.T, what string, a, b []float32) {
	t.Helper()
	if len(a) != len(b) || len(a) == 0 {
		t.Fatalf("%s: %d values and %d", what, len(a), len(b))
	}
	for i := range a {
		if !(math.Abs(float64(a[i]-b[i])) <= 1e-5*(1+math.Abs(float64(b[i])))) {
			t.Fatalf("%s: element %d is %g, on the cpu %g", what, i, a[i], b[i])
		}
	}
}

// Ten private steps agree with those of the CPU, including the noise.
func TestExecutable_AgreesWithCPU(t *testing.T) {
	const records = 6
	o := plan.Optimizer{Kind: plan.Adam, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
	compile := func() *perexample.PrivateNetwork {
		p, err := perexample.Compile(small, records, 1)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	slow, err := gorgonia.New(compile(), true, o, true)
	if err != nil {
		t.Fatal(err)
	}
	p := compile()
	program, err := plan.LowerTraining(p, plan.TrainingOptions{Norms: true, Output: true})
	if err != nil {
		t.Fatal(err)
	}
	fast, err := cpu.New(program, o, true, 1)
	if err != nil {
		t.Fatal(err)
	}
	machines := []plan.Executable{slow, fast}
	for _, m := range machines {
		defer m.Close()
	}
	r := rand.New(rand.NewPCG(3, 3))
	for lot := range uint64(10) {
		for range 2 {
			for i := range machines[0].Input(0) {
				x := float32(r.NormFloat64())
				for _, m := range machines {
					m.Input(0)[i] = x
				}
			}
			for i := range machines[0].Input(1) {
				y := float32(r.IntN(3))
				for _, m := range machines {
					m.Input(1)[i] = y
				}
			}
			for _, m := range machines {
				if err := m.Forward(); err != nil {
					t.Fatal(err)
				}
			}
			close(t, "output", slow.Output(), fast.Output())
			close(t, "losses", slow.Losses(), fast.Losses())
			for v := range p.Parameters {
				close(t, "squared norms", slow.SquaredNorms(v), fast.SquaredNorms(v))
				for i := range slow.ClipFactors(v) {
					f := float32(r.Float64())
					slow.ClipFactors(v)[i], fast.ClipFactors(v)[i] = f, f
				}
			}
			for _, m := range machines {
				if err := m.AddClippedSums(); err != nil {
					t.Fatal(err)
				}
			}
		}
		release := &plan.Release{
			Source: noise.NewSeeded(1), Lot: lot, Sigma: []float64{0.5, 1, 0}, Scale: 0.1,
			Optimizer: o, Step: int(lot) + 1, Rate: 0.01, Average: plan.Average{Decay: 0.9},
			ParamGroups: []plan.RateFactors{{RateMultiplier: 2, DecayMultiplier: 1}, {RateMultiplier: 1, DecayMultiplier: 0}, {RateMultiplier: 0.5, DecayMultiplier: 3}},
		}
		for _, m := range machines {
			if err := m.Release(release); err != nil {
				t.Fatal(err)
			}
		}
		for v := range p.Parameters {
			a, b := slow.State(), fast.State()
			close(t, "weights", a.Weights[v], b.Weights[v])
			close(t, "average", a.Average[v], b.Average[v])
			for s := range a.Slots[v] {
				close(t, "optimiser memory", a.Slots[v][s], b.Slots[v][s])
			}
		}
	}
}

// Without norms the network is trained with the factors that the caller sets.
func TestNew_WithoutNorms(t *testing.T) {
	p, err := perexample.Compile(small, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	m, err := gorgonia.New(p, false, plan.Optimizer{Kind: plan.SGD}, false)
	if err != nil {
		t.Fatal(err)
	}
	if m.SquaredNorms(0) != nil || m.ExampleWeights() != nil || m.State().Average != nil {
		t.Error("norms, weights or averages that were not asked for")
	}
	m.Input(0)[0] = 1
	m.ClipFactors(0)[0] = 1
	if err := m.Forward(); err != nil {
		t.Fatal(err)
	}
	if err := m.AddClippedSums(); err != nil {
		t.Fatal(err)
	}
	if sum := m.Sum(0); sum[0] == 0 || sum[3] != 0 {
		t.Errorf("sum %v: only the first row's input is not zero", sum)
	}
}

// explosive is an operation that panics when it is run.
type explosive struct{ op.Activate }

func (explosive) String() string                            { return "explosive" }
func (explosive) Do([]float64, [][]float64, []tensor.Shape) { panic("boom") }

func TestForward_PanicIsAnError(t *testing.T) {
	p, err := perexample.Compile(func(batch int) (*perexample.Network, error) {
		net, err := small(batch)
		if err != nil {
			return nil, err
		}
		net.Output, err = op.Apply(explosive{}, net.Output)
		return net, err
	}, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	m, err := gorgonia.New(p, true, plan.Optimizer{Kind: plan.SGD}, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Forward(); err == nil || !strings.Contains(err.Error(), "boom") || !strings.Contains(err.Error(), "explosive") {
		t.Errorf("got %v", err)
	}
}

// pictures is a convolutional network of Gorgonia's own operations.
func pictures(batch int) (*perexample.Network, error) {
	g := G.NewGraph()
	x := G.NewTensor(g, tensor.Float32, 4, G.WithShape(batch, 2, 6, 6), G.WithName("x"))
	k1, k2, w := variable(g, "K1", 1, 3, 2, 3, 3), variable(g, "K2", 2, 4, 3, 2, 2), variable(g, "W", 3, 16, 3)
	h := G.Must(G.Conv2d(x, k1, tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
	h = G.Must(G.MaxPool2D(G.Must(G.Rectify(h)), tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
	h = G.Must(G.Conv2d(h, k2, tensor.Shape{2, 2}, []int{0, 0}, []int{1, 1}, []int{1, 1}))
	h = G.Must(G.Reshape(G.Must(G.Tanh(h)), tensor.Shape{batch, 16}))
	loss, err := G.Sum(G.Must(G.Square(G.Must(G.Mul(h, w)))))
	return &perexample.Network{Batch: batch, Inputs: G.Nodes{x}, Params: G.Nodes{k1, k2, w}, Loss: loss}, err
}

// Gorgonia's own tape machine reuses a tensor's memory while a reshaped view of it is
// still to be read. Its norms are wrong; this device's norms are right.
func TestGorgonia_TapeMachineReusesMemory(t *testing.T) {
	p, err := perexample.Compile(pictures, 7, 1)
	if err != nil {
		t.Fatal(err)
	}
	m, err := gorgonia.New(p, true, plan.Optimizer{Kind: plan.SGD}, false)
	if err != nil {
		t.Fatal(err)
	}
	program, err := plan.LowerTraining(p, plan.TrainingOptions{Norms: true, Output: true})
	if err != nil {
		t.Fatal(err)
	}
	fast, err := cpu.New(program, plan.Optimizer{Kind: plan.SGD}, false, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer fast.Close()
	r := rand.New(rand.NewPCG(4, 4))
	x := m.Input(0)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	copy(fast.Input(0), x)
	for _, machine := range []plan.Executable{m, fast} {
		if err := machine.Forward(); err != nil {
			t.Fatal(err)
		}
	}
	value := tensor.New(tensor.WithShape(7, 2, 6, 6), tensor.WithBacking(append([]float32(nil), x...)))
	if err := G.Let(p.Inputs[0], value); err != nil {
		t.Fatal(err)
	}
	var roots G.Nodes
	for v := range p.Parameters {
		close(t, "squared norms", m.SquaredNorms(v), fast.SquaredNorms(v))
		roots = append(roots, p.Parameters[v].SquaredNorms)
	}
	vm := G.NewTapeMachine(roots[0].Graph().ExactSubgraphRoots(roots...), G.TraceExec())
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
	last := len(roots) - 1
	wrong := false
	for i, s := range roots[last].Value().Data().([]float32) {
		wrong = wrong || !(math.Abs(float64(s-m.SquaredNorms(last)[i])) <= 0.01*float64(s))
	}
	if !wrong {
		t.Error("Gorgonia's tape machine gives the right norms: Gorgonia is fixed")
	}
}
