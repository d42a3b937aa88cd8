package clipping

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/clip"
)

// Formula contains the constants of [Clipper.ComputeFactors], for a device that computes
// factors where the squared norms are. The guarantee of the package holds for factors
// computed in float64 arithmetic as
//
//	upper = √((Σ_v weight·sq_v + absolute)·inverse)
//	c     = min(rule(upper, S), S·margin/upper), 0 below smallest
//
// A record with a squared norm that is NaN, infinite or negative gets the factor 0 in every
// group. The zero Formula, without groups, gives every record the factor 1 and guarantees
// nothing. Runs without privacy use it.
type Formula struct {
	Groups   []GroupFormula
	Inverse  float64
	Margin   float64
	Smallest float64
}

// GroupFormula is the part of a [Formula] that belongs to one group.
type GroupFormula struct {
	Parameters []int
	Weights    []float64 // 1/s² of each parameter
	Absolute   float64
	Gamma      float64 // of [clip.Normalized]; negative: the rule is [clip.Threshold]
}

// Formula returns the clipper's formula. If a group has a rule of a type that Formula cannot
// express, or norms are ℓ₁ norms, ok is false.
func (c *Clipper) Formula() (f Formula, ok bool) {
	if c.l1 {
		return Formula{}, false
	}
	f = Formula{Inverse: c.inverse, Margin: c.margin, Smallest: minFactor}
	for i, g := range c.groups {
		part := GroupFormula{Weights: g.weights, Absolute: g.absolute}
		for _, m := range c.resolved[i].Members {
			part.Parameters = append(part.Parameters, m.Parameter)
		}
		if part.Gamma, ok = gammaOf(g.rule); !ok {
			return Formula{}, false
		}
		f.Groups = append(f.Groups, part)
	}
	return f, true
}

// gammaOf returns the constant that describes a rule to devices, if they know the rule.
func gammaOf(rule clip.Rule) (gamma float64, ok bool) {
	switch r := rule.(type) {
	case clip.Threshold:
		return -1, true
	case clip.Normalized:
		return r.Gamma, true
	}
	return 0, false
}

// checkRule returns an error if the constant of a rule that devices know is unusable, or if another
// rule or its bound has a state.
func checkRule(group string, rule clip.Rule, bound clip.Bound) error {
	if r, ok := rule.(clip.Normalized); ok && (!(r.Gamma > 0) || math.IsInf(r.Gamma, 1)) {
		return fmt.Errorf("clip: group %q: the stability constant is %v: use a positive number such as 0.01", group, r.Gamma)
	}
	if _, ok := gammaOf(rule); ok {
		return nil
	}
	return checkPure(group, rule, bound)
}

// SetCounts sets the counts of the lot, as a device that uses the formula determined them
// since BeginLot: the number of records, the number of excluded records and, for each group,
// the number of records within the bound.
func (c *Clipper) SetCounts(records, refused int, within []int) {
	c.excluded = refused
	for g := range c.groups {
		c.groups[g].count = float64(within[g]) - float64(records)/2
	}
}
