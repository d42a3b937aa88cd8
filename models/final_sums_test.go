package models

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/perexample"
)

// A sum that is reported to be final has the value that it has at the end, for every network, and all are reported. A
// lot's last microbatch adds the same as others.
func TestAddLastClippedSums_ReportsFinalSums(t *testing.T) {
	for _, w := range networkCases(t) {
		t.Run(w.name, func(t *testing.T) {
			const records = 3
			x := w.draw(t, records)
			p, err := perexample.Compile(w.build, records, 1)
			if err != nil {
				t.Fatal(err)
			}
			program, err := plan.LowerTraining(p, plan.TrainingOptions{Norms: true, Exact: true})
			if err != nil {
				t.Fatal(err)
			}
			m, err := cpu.New(program, plan.Optimizer{Kind: plan.SGD}, false, 2)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			for k := range p.Inputs {
				copy(m.Input(k), x.columns[k])
			}
			for k := range 2 * len(p.BatchNorms) {
				in := m.Input(len(p.Inputs) + k)
				copy(in, runningValues(k%2, len(in)))
			}
			for i := range len(m.MaskSeed()) / op.MaskSeedWidth {
				op.WriteMaskSeed(m.MaskSeed()[i*op.MaskSeedWidth:], uint64(i), 3)
			}
			for v := range p.Parameters {
				copy(m.ClipFactors(v), []float32{0.5, 0.75, 1})
				m.Contributions().Steps[v] = 100
			}
			r := rand.New(rand.NewPCG(1, 2))
			for i := range m.Contributions().Seeds {
				m.Contributions().Seeds[i] = r.Uint64()
			}
			if err := m.Forward(); err != nil {
				t.Fatal(err)
			}
			order, reported, sums := m.SumOrder(), 0, make([][]int64, len(p.Parameters))
			err = m.AddLastClippedSums(func(n int) {
				for _, v := range order[reported:n] {
					sums[v] = m.IntegerSum(v)
				}
				reported = n
			})
			if err != nil || reported != len(p.Parameters) {
				t.Fatalf("%d of %d sums are reported, %v", reported, len(p.Parameters), err)
			}
			some := false
			check := func(when string, times int64) {
				for v := range sums {
					for i, s := range m.IntegerSum(v) {
						if some = some || s != 0; s != times*sums[v][i] {
							t.Fatalf("%s: sum %d of %s is %d, and %d when it was reported", when, i, program.Parameters[v].Name, s, sums[v][i])
						}
					}
				}
			}
			check("after the microbatch", 1)
			if err := errors.Join(m.Forward(), m.AddClippedSums()); err != nil {
				t.Fatal(err)
			}
			if check("after the same microbatch again", 2); !some {
				t.Error("all sums are 0")
			}
			if sorted := slices.Sorted(slices.Values(order)); len(slices.Compact(sorted)) != len(p.Parameters) {
				t.Errorf("the order of sums is %v", order)
			}
		})
	}
}
