package plantest

import (
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"gorgonia.org/tensor"
)

// Sums checks that clipped sums are added to their accumulator: several microbatches add
// up to the sum of their results, and after a release the next lot starts at zero. The
// accumulator is observed through the step of a release.
func Sums(t *testing.T, compile Compile, threads int) {
	for seed := range seeds() {
		r := rand.New(rand.NewPCG(seed, 19))
		ts := &trials{r: r, b: between(r, 1, 9)}
		for _, u := range ts.uses() {
			ts.list = append(ts.list, ts.sum(u))
		}
		factors := ts.factors()
		ts.joint(1e-5, op.WeightedRows{}, poisoned(normal(r, ts.b, size(r)), factors), factors)
		for _, tr := range ts.list {
			t.Run(tr.spec(tr.records).String(), func(t *testing.T) { tr.accumulate(t, compile, threads) })
		}
	}
}

// accumulating is a program whose Back adds the result to the accumulator of its only
// parameter.
func (tr trial) accumulating(t *testing.T) *plan.Program {
	t.Helper()
	p := tr.program(t)
	sum := &p.Buffers[len(tr.in)]
	n := sum.Shape.TotalSize()
	sum.Name, sum.Role, sum.Shape = "sum", plan.RoleClippedSum, tensor.Shape{n}
	p.Back = p.Front
	p.Front = nil
	p.Back[0].Accumulate = true
	p.Buffers = append(p.Buffers, plan.Buffer{
		Name: "weights", Shape: tensor.Shape{n}, Role: plan.RoleParameter, Value: make([]float32, n), Base: len(p.Buffers),
	})
	p.Parameters = []plan.Parameter{{
		Name: "weights", Shape: tensor.Shape{n}, Value: len(p.Buffers) - 1, SquaredNorms: -1, ClipFactors: len(tr.in) - 1, ClippedSum: len(tr.in),
	}}
	return p
}

// step is a release without noise that subtracts the sum from the weights.
func step(n int) *plan.Release {
	return &plan.Release{Sigma: []float64{0}, Scale: 1, Optimizer: plan.Optimizer{Kind: plan.SGD}, Step: n, Rate: 1}
}

func (tr trial) accumulate(t *testing.T, compile Compile, threads int) {
	var first []float32
	for n := 1; n <= threads; n++ {
		m := tr.machine(t, compile, tr.accumulating(t), n)
		try := func(err error) {
			t.Helper()
			if err == nil {
				err = m.SyncState()
			}
			if err != nil {
				t.Fatalf("%v: %v", tr, err)
			}
		}
		try(m.Forward())
		var got []float32
		for i := range 3 {
			for range i { // 0, 1, then 2 microbatches in a lot
				try(m.AddClippedSums())
			}
			try(m.Release(step(i + 1)))
			got = append([]float32(nil), m.State().Weights[0]...)
		}
		for i := range got {
			got[i] /= -3
		}
		tr.compare(t, got)
		if first == nil {
			first = got
		}
		sameBits(t, tr, "with other threads", got, first)
		allocates(t, tr.String(), func() { try(m.AddClippedSums()) })
	}
}
