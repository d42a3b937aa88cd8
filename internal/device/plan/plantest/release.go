package plantest

import (
	"math"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/noise"
	"gorgonia.org/tensor"
)

// optimizers are one of each kind, with weight decay. Epsilon is large, so that a
// rounding error in a gradient near zero does not become a step.
var optimizers = []plan.Optimizer{
	{Kind: plan.SGD, WeightDecay: 0.1},
	{Kind: plan.Momentum, Momentum: 0.9, WeightDecay: 0.1},
	{Kind: plan.Nesterov, Momentum: 0.9, WeightDecay: 0.1},
	{Kind: plan.Adam, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-2, WeightDecay: 0.1},
	{Kind: plan.AdamW, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-2, WeightDecay: 0.1},
	{Kind: plan.RMSProp, Beta2: 0.99, Epsilon: 1e-2, WeightDecay: 0.1},
	{Kind: plan.Adagrad, Epsilon: 1e-2, WeightDecay: 0.1},
}

// Release checks several releases of every optimiser against noise.Normals and
// plan.Optimizer: weights, averages and optimiser state. Parameters are shorter and
// longer than any block, with noise and without, with one parameter group and with
// several.
func Release(t *testing.T, compile Compile, threads int) {
	for _, o := range optimizers {
		for _, decay := range []float64{0, 0.9} {
			t.Run(string(o.Kind), func(t *testing.T) {
				for n := 1; n <= threads; n++ {
					release(t, compile, noise.NewSeeded(7), o, plan.Average{Decay: decay}, n)
				}
			})
		}
	}
}

// expected is the expected training state of one parameter.
type expected struct {
	weights, average []float32
	slots            [][]float32
}

func release(t *testing.T, compile Compile, source *noise.Source, o plan.Optimizer, average plan.Average, threads int) {
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
			plan.Buffer{Name: "row", Shape: tensor.Shape{1, n}, Role: plan.RoleInput, Index: v, Base: at},
			plan.Buffer{Name: "factor", Shape: tensor.Shape{1}, Role: plan.RoleClipFactors, Index: v, Base: at + 1},
			plan.Buffer{Name: "weights", Shape: shape, Role: plan.RoleParameter, Index: v, Base: at + 2, Value: start},
			plan.Buffer{Name: "sum", Shape: shape, Role: plan.RoleClippedSum, Index: v, Base: at + 3})
		p.Back = append(p.Back, plan.Instruction{Spec: op.WeightedRows{}, In: []int{at, at + 1}, Out: at + 3, Accumulate: true})
		p.Parameters = append(p.Parameters, plan.Parameter{
			Name: "weights", Shape: shape, Value: at + 2, SquaredNorms: -1, ClipFactors: at + 1, ClippedSum: at + 3,
		})
		e := expected{weights: append([]float32(nil), start...), average: make([]float32, n)}
		for range o.Slots() {
			e.slots = append(e.slots, make([]float32, n))
		}
		want = append(want, e)
	}
	m, err := compile(p, o, average.Decay > 0, threads)
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
	paces := []plan.RateFactors{{RateMultiplier: 2, DecayMultiplier: 0}, {RateMultiplier: 1, DecayMultiplier: 1},
		{RateMultiplier: 2, DecayMultiplier: 0}, {RateMultiplier: 2, DecayMultiplier: 3}}
	for lot := range uint64(4) {
		now.Lot, now.Step, now.ParamGroups = lot, int(lot)+1, nil
		if lot > 0 {
			now.ParamGroups = paces
		}
		for v, n := range sizes {
			for i := range m.Input(v) {
				m.Input(v)[i] = float32(math.Cos(float64(lot) + float64(i)))
			}
			m.ClipFactors(v)[0] = 0.75
			g := make([]float32, n)
			if sigma[v] > 0 {
				try(source.Normals(g, noise.Stream{Purpose: noise.Release, Lot: lot, Vector: uint32(v)}, 0))
			}
			for i := range g {
				g[i] = (0.75*m.Input(v)[i] + float32(sigma[v])*g[i]) * 0.125
			}
			e, own, rate := want[v], o, now.Rate
			if lot > 0 {
				own.WeightDecay *= paces[v].DecayMultiplier
				rate *= paces[v].RateMultiplier
			}
			try(own.Apply(now.Step, rate, e.weights, g, e.slots))
			if average.Decay > 0 {
				try(average.Apply(now.Step, e.average, e.weights))
			}
		}
		try(m.Forward())
		try(m.AddClippedSums())
		try(m.Release(now))
		try(m.SyncState())
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

// close compares up to a few float32 roundings, with or without fused multiply-add.
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
