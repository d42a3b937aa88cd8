package clipping

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/clip"
)

// checkPure returns an error if a rule does not give the same factor for the same norm and bound,
// in any order of calls, or if its calls change the group's bound. Such a rule or bound
// has a state through which one record changes the factors of others.
func checkPure(group string, rule clip.Rule, bound clip.Bound) error {
	before := bound.At(0)
	unit := before
	if !(unit >= minBound && unit <= maxBound) {
		unit = 1 // BeginLot checks the bound
	}
	const calls = 32
	var first [calls]uint64
	factor := func(i int) uint64 {
		norm := unit * math.Exp2(float64(i-calls/2)/2) // from 2^-8 to 2^7.5 of the bound
		return math.Float64bits(rule.Factor(norm, unit))
	}
	for i := range calls {
		first[i] = factor(i)
	}
	for _, order := range []func(i int) int{
		func(i int) int { return i },
		func(i int) int { return calls - 1 - i },
		func(i int) int { return i * 13 % calls },
		func(i int) int { return i / 4 * 4 }, // the same norm several times
	} {
		for i := range calls {
			if k := order(i); factor(k) != first[k] {
				return fmt.Errorf("clip: group %q: the rule %T gives different factors for the same norm and bound, so a record can change the factors of others: use a rule without a state", group, rule)
			}
		}
	}
	if after := bound.At(0); math.Float64bits(after) != math.Float64bits(before) {
		return fmt.Errorf("clip: group %q: the bound changes from %v to %v when the rule %T is called, so it depends on private norms: use a bound without a state", group, before, after, rule)
	}
	return nil
}
