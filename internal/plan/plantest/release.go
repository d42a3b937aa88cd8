package plantest

import (
	"math"
	"testing"

	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/plan"
	"github.com/dptrain/dptrain/noise"
	"gorgonia.org/tensor"
)

// optimizers are one of each kind, with weight decay. Epsilon is large, so that
// a gradient near zero does not make a rounding into a step.
var optimizers = []optim.Optimizer{
	{Kind: optim.KindSGD, WeightDecay: 0.1},
	{Kind: optim.KindMomentum, Momentum: 0.9, WeightDecay: 0.1},
	{Kind: optim.KindNesterov, Momentum: 0.9, WeightDecay: 0.1},
	{Kind: optim.KindAdam, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-2, WeightDecay: 0.1},
	{Kind: optim.KindAdamW, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-2, WeightDecay: 0.1},
	{Kind: optim.KindRMSProp, Beta2: 0.99, Epsilon: 1e-2, WeightDecay: 0.1},
	{Kind: optim.KindAdagrad, Epsilon: 1e-2, WeightDecay: 0.1},
}

// Release checks several releases of every optimiser against noise.Normals and
// optim: weights, averages and the optimiser's memory, for vectors shorter and
// longer than any block, one with noise and one without, at one pace and then at several.
func Release(t *testing.T, new Backend, threads int) {
	for _, o := range optimizers {
		for _, decay := range []float64{0, 0.9} {
			t.Run(string(o.Kind), func(t *testing.T) {
				for n := 1; n <= threads; n++ {
					release(t, new, noise.Seeded(7), o, optim.Average{Decay: decay}, n)
				}
			})
		}
	}
}

// expected is what training is to make of one vector.
type expected struct {
	weights, average []float32
	slots            [][]float32
}

func release(t *testing.T, new Backend, source *noise.Source, o optim.Optimizer, average optim.Average, threads int) {
	sizes, sigma := []int{1, 7, 4099, 70001}, []float64{1.5, 0, 0.25, 2}
	if testing.Short() {
		sizes[3] = 20011
	}
	p := &plan.Program{Batch: 1, Records: 1, PerRecord: 1}
	var want []expected
	for v, n := range sizes {
		start := make([]float32, n)
		for i := range start {
			start[i] = float32(math.Sin(float64(i + v)))
		}
		at := len(p.Buffers)
		shape := tensor.Shape{n}
		p.Buffers = append(p.Buffers,
			plan.Buffer{Name: "row", Shape: tensor.Shape{1, n}, Role: plan.Input, Index: v, Base: at},
			plan.Buffer{Name: "factor", Shape: tensor.Shape{1}, Role: plan.Factors, Index: v, Base: at + 1},
			plan.Buffer{Name: "weights", Shape: shape, Role: plan.Parameter, Index: v, Base: at + 2, Value: start},
			plan.Buffer{Name: "sum", Shape: shape, Role: plan.Sum, Index: v, Base: at + 3})
		p.Back = append(p.Back, plan.Instruction{Spec: op.WeightedRows{}, In: []int{at, at + 1}, Out: at + 3, Accumulate: true})
		p.Vectors = append(p.Vectors, plan.Vector{
			Name: "weights", Shape: shape, Parameter: at + 2, Squared: -1, Factors: at + 1, Sum: at + 3,
		})
		e := expected{weights: append([]float32(nil), start...), average: make([]float32, n)}
		for range o.Slots() {
			e.slots = append(e.slots, make([]float32, n))
		}
		want = append(want, e)
	}
	m, err := new(p, o, average.Decay > 0, threads)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	try := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	now := &plan.Release{Source: source, Sigma: sigma, Scale: 0.125, Optimizer: o, Rate: 0.05, Average: average}
	paces := []plan.Pace{{Rate: 2, Decay: 0}, {Rate: 1, Decay: 1}, {Rate: 2, Decay: 0}, {Rate: 2, Decay: 3}}
	for lot := range uint64(4) {
		now.Lot, now.Step, now.Paces = lot, int(lot)+1, nil
		if lot > 0 {
			now.Paces = paces
		}
		for v, n := range sizes {
			for i := range m.Input(v) {
				m.Input(v)[i] = float32(math.Cos(float64(lot) + float64(i)))
			}
			m.Factors(v)[0] = 0.75
			g := make([]float32, n)
			if sigma[v] > 0 {
				try(source.Normals(g, noise.Stream{Purpose: noise.Release, Lot: lot, Vector: uint32(v)}, 0))
			}
			for i := range g {
				g[i] = (0.75*m.Input(v)[i] + float32(sigma[v])*g[i]) * 0.125
			}
			e, own, rate := want[v], o, now.Rate
			if lot > 0 {
				own.WeightDecay *= paces[v].Decay
				rate *= paces[v].Rate
			}
			try(own.Apply(now.Step, rate, e.weights, g, e.slots))
			if average.Decay > 0 {
				try(average.Apply(now.Step, e.average, e.weights))
			}
		}
		try(m.Forward())
		try(m.Add())
		try(m.Release(now))
		try(m.Sync())
		state := m.State()
		for v, e := range want {
			close(t, "weights", state.Weights[v], e.weights)
			for s := range e.slots {
				close(t, "memory", state.Slots[v][s], e.slots[s])
			}
			if average.Decay > 0 {
				close(t, "average", state.Average[v], e.average)
			}
		}
	}
	allocates(t, "release", func() { now.Step++; now.Lot++; try(m.Release(now)) })
}

// close compares to what a few roundings in float32 may change, fused or not.
func close(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range got {
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= 3e-6*(1+math.Abs(float64(want[i])))) {
			t.Fatalf("%s: element %d of %d is %v, want %v", what, i, len(got), got[i], want[i])
		}
	}
}
