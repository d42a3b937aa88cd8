package random

import (
	"fmt"
	"math"
	"testing"
)

// permuteAndFlipProbabilities are the exact probabilities of a choice, by enumeration of all
// orders.
func permuteAndFlipProbabilities(scores []int64, scale float64) []float64 {
	best := scores[0]
	for _, s := range scores {
		best = max(best, s)
	}
	p := make([]float64, len(scores))
	var visit func(left []int, reached float64)
	visit = func(left []int, reached float64) {
		for i, k := range left {
			accept := math.Exp(-float64(uint64(best)-uint64(scores[k])) / scale)
			here := reached / float64(len(left))
			p[k] += here * accept
			rest := append(append([]int(nil), left[:i]...), left[i+1:]...)
			visit(rest, here*(1-accept))
		}
	}
	all := make([]int, len(scores))
	for i := range all {
		all[i] = i
	}
	visit(all, 1)
	return p
}

// Frequencies agree with the exact probabilities. The seed is fixed. With a new one, the
// probability that one of the chi-square sums exceeds its quantile at z = 5.2 (Wilson and
// Hilferty) is below 1e-6.
func TestPermuteAndFlip_Distribution(t *testing.T) {
	const draws = 60000
	s := NewSeeded(77)
	lot := uint64(0)
	for _, test := range []struct {
		scores   []int64
		num, den uint64
	}{
		{[]int64{5}, 1, 1},
		{[]int64{0, 0, 0}, 1, 1},
		{[]int64{0, 1, 2, 3}, 2, 1},
		{[]int64{0, 1, 2, 3}, 20, 1},
		{[]int64{7, -3, 7, 4, 6}, 22, 7},
		{[]int64{-40, 0, -2, -1}, 1, 3}, // exponents with a whole part
		{[]int64{math.MaxInt64, math.MinInt64, math.MaxInt64 - 1}, 3, 2},
		{[]int64{math.MaxInt64, math.MinInt64}, 1 << 63, 1}, // the largest gap
		{[]int64{1 << 40, 1<<40 - 1<<20, 0}, 1 << 21, 1},
	} {
		counts := make([]float64, len(test.scores))
		for range draws {
			at, err := s.PermuteAndFlip(test.scores, Stream{Purpose: Release, Lot: lot}, test.num, test.den)
			if err != nil {
				t.Fatal(err)
			}
			lot++
			counts[at]++
		}
		want := permuteAndFlipProbabilities(test.scores, float64(test.num)/float64(test.den))
		sum, freedom := 0.0, -1.0
		for i, p := range want {
			switch expected := p * draws; {
			case expected > 10:
				sum += (counts[i] - expected) * (counts[i] - expected) / expected
				freedom++
			case counts[i] > expected+40: // by Chernoff's bound below 1e-12
				t.Errorf("%v: candidate %d was chosen %v times, expected %v", test, i, counts[i], expected)
			}
		}
		if freedom < 1 {
			continue
		}
		if z := (math.Cbrt(sum/freedom) - (1 - 2/(9*freedom))) / math.Sqrt(2/(9*freedom)); !(z <= 5.2) {
			t.Errorf("%v: counts %v, want %v: z = %.1f", test, counts, want, z)
		}
	}
}

// If each score changes by at most 1, no probability changes by more than a factor exp(2/scale):
// the exact probabilities, for all changes of a few scores.
func TestPermuteAndFlip_PrivacyByEnumeration(t *testing.T) {
	scores := []int64{4, 3, 3, 1}
	for _, scale := range []float64{0.7, 2, 10} {
		p := permuteAndFlipProbabilities(scores, scale)
		largest := 0.0
		for change := range 81 {
			other, c := append([]int64(nil), scores...), change
			for i := range other {
				other[i] += int64(c%3) - 1
				c /= 3
			}
			for i, q := range permuteAndFlipProbabilities(other, scale) {
				largest = max(largest, math.Abs(math.Log(q/p[i])))
			}
		}
		if !(largest <= 2/scale+1e-9) || largest < 1/scale {
			t.Errorf("scale %v: the largest loss is %v, want at most %v", scale, largest, 2/scale)
		}
	}
}

func TestPermuteAndFlip_Refuses(t *testing.T) {
	s := NewSeeded(1)
	for i, err := range []error{
		errorOf(s.PermuteAndFlip(nil, Stream{Purpose: Release}, 1, 1)),
		errorOf(s.PermuteAndFlip([]int64{1}, Stream{Purpose: Release}, 0, 1)),
		errorOf(s.PermuteAndFlip([]int64{1}, Stream{Purpose: Release}, 1, 0)),
		errorOf(s.PermuteAndFlip([]int64{1}, Stream{}, 1, 1)),
	} {
		if err == nil {
			t.Errorf("case %d was accepted", i)
		}
	}
}

func errorOf(_ int, err error) error { return err }

// A choice depends on its stream alone, and not on what was drawn before.
func TestPermuteAndFlip_IsAFunctionOfItsStream(t *testing.T) {
	scores := []int64{1, 2, 3, 4, 5, 6, 7, 8}
	draw := func(s *Source, lot uint64) int {
		at, err := s.PermuteAndFlip(scores, Stream{Purpose: Release, Lot: lot}, 50, 1)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	a, b := NewSeeded(3), NewSeeded(3)
	var forwards, backwards []int
	for lot := range uint64(40) {
		forwards = append(forwards, draw(a, lot))
		backwards = append([]int{draw(b, 39-lot)}, backwards...)
	}
	if fmt.Sprint(forwards) != fmt.Sprint(backwards) {
		t.Errorf("%v and %v", forwards, backwards)
	}
}
