package clipping

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A device that computes the formula as documented gets the same bits and counts as
// ComputeFactors.
func TestFormula_MatchesComputeFactors(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	const n = 500
	sq := matrix(len(names), n)
	for v := range sq {
		for r := range sq[v] {
			sq[v][r] = float32(math.Exp(2 * random.NormFloat64()))
		}
	}
	sq[0][3], sq[1][7], sq[4][9] = -1e-3, float32(math.Inf(1)), float32(math.NaN())
	sq[2][11] = math.MaxFloat32
	for _, s := range strategies(1) {
		c := bind(t, s.groups, Accuracy{Relative: 0.01, Absolute: 1e-3})
		if err := c.BeginLot(0); err != nil {
			t.Fatal(err)
		}
		formula, ok := c.Formula()
		if _, own := s.groups[0].Rule.(rule); ok == own {
			t.Fatalf("%s: there is a formula: %v", s.title, ok)
		} else if own {
			continue
		}
		want := matrix(len(s.groups), n)
		if err := c.ComputeFactors(want, sq, n); err != nil {
			t.Fatal(err)
		}
		within := make([]int, len(s.groups))
		for r := range n {
			good := true
			for v := range sq {
				good = good && sq[v][r] >= 0 && sq[v][r] <= math.MaxFloat32
			}
			for g, f := range formula.Groups {
				sum, bound := 0.0, c.Sensitivities()[g]
				for i, v := range f.Parameters {
					sum += f.Weights[i] * float64(sq[v][r])
				}
				upper := math.Sqrt((sum + f.Absolute) * formula.Inverse)
				proposed := min(1, bound/upper)
				if f.Gamma >= 0 {
					proposed = bound / (upper + f.Gamma)
				}
				got := min(proposed, bound*formula.Margin/upper)
				if !good || got < formula.Smallest {
					got = 0
				}
				if good && upper <= bound {
					within[g]++
				}
				if float32(got) != want[g][r] {
					t.Fatalf("%s: record %d has factor %v in group %d, by the formula %v", s.title, r, want[g][r], g, got)
				}
			}
		}
		counts := make([]float64, len(s.groups))
		for g := range counts {
			counts[g] = c.QuantileCount(g)
		}
		refused := c.ExcludedRecords()
		if err := c.BeginLot(0); err != nil {
			t.Fatal(err)
		}
		c.SetCounts(n, refused, within)
		for g := range counts {
			if c.QuantileCount(g) != counts[g] || c.ExcludedRecords() != 3 {
				t.Errorf("%s: counted %v and %d refused, want %v and 3", s.title, c.QuantileCount(g), c.ExcludedRecords(), counts[g])
			}
		}
	}
}
