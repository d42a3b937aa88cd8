package plantest

import (
	"math"
	"math/big"
	"testing"

	"github.com/dptrain/dptrain/internal/device/plan"
)

// lengthOf is the ℓ₁ norm of integers, in arbitrary precision.
func lengthOf(sums [][]int64) *big.Int {
	norm := new(big.Int)
	for _, sum := range sums {
		for _, x := range sum {
			norm.Add(norm, new(big.Int).Abs(big.NewInt(x)))
		}
	}
	return norm
}

// lengthTaken is squaredNormTaken for ℓ₁ norms.
func (m *slotExecutable) lengthTaken(group, r int) int64 {
	return m.Executable.(interface{ LengthTaken(group, r int) int64 }).LengthTaken(group, r)
}

// L1Contributions tests programs with L1. Norms are ℓ₁ norms, and the integers that a record adds
// have an ℓ₁ norm of at most Bound, which is what was taken from its budget, in arbitrary
// precision, for every factor and all inputs. They are the record's clipped gradient up to the
// rounding to the lattice, and do not depend on the other records, on the slot or on the number of
// threads.
func L1Contributions(t *testing.T, compile Compile, threads int) {
	options := plan.TrainingOptions{Norms: true, Exact: true, L1: true}
	for _, n := range contributionNetworks(t) {
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			factors := make([]float32, contributingRecords)
			var exact [][][]float32
			lengths := make([]float64, contributingRecords)
			for record := range contributingRecords {
				gradient, _ := n.gradients(t, compile, record)
				exact = append(exact, gradient)
				for _, v := range gradient {
					for _, x := range v {
						lengths[record] += math.Abs(float64(x))
					}
				}
				if factors[record] = float32((1 - 1.0/256) / lengths[record]); record == 1 {
					factors[record] *= 1e-2
				}
			}
			m := n.openWith(t, compile, contributingRecords, threads, options)
			for v := range m.program.Parameters {
				m.Contributions().Steps[v] = plan.Bound
			}
			want := make([][]int64, len(m.program.Parameters))
			for record := range contributingRecords {
				s := slots{empty, empty, empty, empty}
				s[record] = record
				sums := m.add(t, s, factors)
				deviation, elements, computed := 0.0, 0, 0.0
				for v, sum := range sums {
					computed += float64(m.SquaredNorms(v)[record])
					want[v] = append(want[v], make([]int64, len(sum)-len(want[v]))...)
					for i, x := range sum {
						want[v][i] += x
						deviation += math.Abs(float64(x) - float64(factors[record])*float64(exact[record][v][i])*plan.Bound)
					}
					elements += len(sum)
				}
				if math.Abs(computed/lengths[record]-1) > 1e-3 {
					t.Errorf("record %d: the computed ℓ₁ norm is %v, want %v", record, computed, lengths[record])
				}
				got, taken := lengthOf(sums), m.lengthTaken(0, record)
				if got.Cmp(big.NewInt(plan.Bound)) > 0 || got.Cmp(big.NewInt(taken)) != 0 {
					t.Errorf("record %d: ℓ₁ norm %v of at most %d, and %d was taken from the budget", record, got, plan.Bound, taken)
				}
				if limit := 1e-3*plan.Bound + float64(elements); !(deviation < limit) {
					t.Errorf("record %d: the contribution is off by %.0f steps of at most %.0f", record, deviation, limit)
				}
			}
			if reduced, omitted := m.partCounts(t); reduced+omitted > 0 {
				t.Errorf("%d parts reduced, %d omitted", reduced, omitted)
			}
			if err := equalSums(m.add(t, slots{2, 3, 1, 0}, factors), want); err != nil {
				t.Errorf("records in other slots: %v", err)
			}
			one, three := n.openWith(t, compile, 9, 1, options), n.openWith(t, compile, 9, 3, options)
			for v := range three.program.Parameters {
				one.Contributions().Steps[v], three.Contributions().Steps[v] = plan.Bound, plan.Bound
			}
			want = one.add(t, slots{3, empty, 1, empty, 2, empty, 0, empty, empty}, factors)
			if err := equalSums(three.add(t, slots{empty, empty, empty, 0, 1, 2, 3, empty, empty}, factors), want); err != nil {
				t.Errorf("nine slots, other threads: %v", err)
			}
			for _, times := range []float64{1.5, 40, 1e5, 1e20, math.Inf(1), math.NaN()} {
				sums := m.add(t, slots{2, empty, empty, empty}, []float32{2: float32(times / lengths[2]), 3: 0})
				if got, taken := lengthOf(sums), m.lengthTaken(0, 0); got.Cmp(big.NewInt(taken)) != 0 || taken > plan.Bound {
					t.Errorf("%g times the bound: ℓ₁ norm %v, and %d was taken of %d", times, got, taken, plan.Bound)
				}
				if reduced, omitted := m.partCounts(t); times < math.Inf(1) && reduced+omitted == 0 {
					t.Errorf("%g times the bound: no part was reduced", times)
				}
			}
			for _, x := range []float32{float32(math.Inf(1)), float32(math.NaN()), math.MaxFloat32, 1e-38} {
				m.load(t, slots{2, empty, empty, empty}, []float32{2: float32(1 / lengths[2]), 3: 0})
				for i := range m.Input(0) {
					m.Input(0)[i] = x
				}
				sums := m.run(t)
				if got, taken := lengthOf(sums), m.lengthTaken(0, 0); got.Cmp(big.NewInt(taken)) != 0 || taken > plan.Bound {
					t.Errorf("inputs %v: ℓ₁ norm %v, and %d was taken", x, got, taken)
				}
			}
		})
	}
}
