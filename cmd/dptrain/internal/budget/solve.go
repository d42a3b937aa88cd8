package budget

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// Solution has all quantities of a plan, given or computed.
type Solution struct {
	Guarantee
	Spent *number.Float `json:"epsilon_spent,omitempty"` // if ε is a target: the ε that the solution spends, which meets it; PublishedEpsilon is that of this cost
	Plan
}

// Solve computes the unknown quantity of a plan.
func Solve(unknown Quantity, plan accountant.Plan, epsilon, delta float64, name string) (Solution, error) {
	var err error
	switch unknown {
	case Delta:
		return solveDelta(plan, epsilon, name)
	case Noise:
		plan.Noise, err = accountant.CalibrateNoise(plan, epsilon, delta, name)
	case Steps:
		plan.Steps, err = accountant.CalibrateSteps(plan, epsilon, delta, name)
	case Rate:
		var rate float64
		if rate, err = accountant.CalibrateRate(plan, epsilon, delta, name); plan.Sampling.Policy == ledger.Poisson {
			plan.Sampling.Rate = rate
		} else {
			plan.Sampling.LotSize = int(rate*float64(plan.Sampling.Records) + 0.5)
		}
	}
	if err != nil {
		return Solution{}, err
	}
	guarantee, err := accountant.Epsilon(plan.History(), delta, name)
	s := Solution{Guarantee: NewGuarantee(guarantee), Plan: NewPlan(plan)}
	if unknown != Epsilon {
		s.setSpent(guarantee)
		s.Epsilon = number.Float(epsilon)
	}
	return s, err
}

// setSpent records the ε of the solved plan, which is at most the target.
func (s *Solution) setSpent(g accountant.Guarantee) {
	spent := number.Float(g.Epsilon)
	s.Spent, s.PublishedEpsilon = &spent, number.Float(g.Published)
}

// solveDelta computes δ. It does not compute the spent ε if δ is 0 or 1.
func solveDelta(plan accountant.Plan, epsilon float64, name string) (Solution, error) {
	guarantee, err := accountant.Delta(plan.History(), epsilon, name)
	if err != nil {
		return Solution{}, err
	}
	s := Solution{Guarantee: NewGuarantee(guarantee), Plan: NewPlan(plan)}
	s.PublishedEpsilon, s.PublishedDelta = 0, s.PublishedEpsilon
	delta, err := accountant.CalibrateDelta(plan, epsilon, name)
	if s.Delta = number.Float(delta); err != nil || delta == 0 || delta == 1 {
		return s, err
	}
	spent, err := accountant.Epsilon(plan.History(), delta, name)
	s.setSpent(spent)
	return s, err
}

// SolveAsymptotic computes ε by the asymptotic bound of Abadi et al. 2016.
func SolveAsymptotic(plan accountant.Plan, delta float64) (Solution, error) {
	guarantee, err := accountant.AsymptoticMoments(plan, delta)
	return Solution{Guarantee: NewGuarantee(guarantee), Plan: NewPlan(plan)}, err
}

// Value writes one quantity, rounded so that it never exceeds the target. It marks an ε or a
// δ that is an approximation.
func (s Solution) Value(q Quantity) string {
	switch q {
	case Noise:
		return number.RoundUp(s.Noise)
	case Steps:
		return strconv.Itoa(s.Steps)
	case Rate:
		return number.RoundDown(s.Rate)
	case Delta:
		return FormatBound(s.Delta, s.Approximate)
	}
	return FormatBound(s.Epsilon, s.Approximate)
}

// Print writes the rows of a table, starting with the computed quantity.
func (s Solution) Print(w io.Writer, computed Quantity) {
	if computed != Epsilon {
		fmt.Fprintf(w, "%s\t%s\n", computed, s.Value(computed))
	}
	s.Guarantee.Print(w, computed)
	if s.Spent != nil {
		fmt.Fprintf(w, "epsilon spent\t%s\n", FormatBound(*s.Spent, s.Approximate))
		if s.PublishedEpsilon != 0 {
			fmt.Fprintf(w, "published epsilon\t%s\n", DescribePublished(s.PublishedEpsilon))
		}
	}
	if s.PublishedDelta != 0 {
		fmt.Fprintf(w, "published delta\t%s\n", DescribePublished(s.PublishedDelta))
	}
	s.Plan.Print(w, computed)
}

// Comparison has the ε of one plan by every accountant.
type Comparison struct {
	Rows  []Guarantee `json:"rows"`
	Delta float64     `json:"delta"`
	Plan
}

// AccountantsOf returns the accountants that compute the cost of a plan: all, except for gdp with
// Laplace noise.
func AccountantsOf(plan accountant.Plan) []string {
	names := accountant.Names()
	if isLaplace(plan) {
		names = slices.DeleteFunc(names, func(name string) bool { return name == "gdp" })
	}
	return names
}

// Compare computes the ε of a plan by every one of AccountantsOf.
func Compare(plan accountant.Plan, delta float64) (Comparison, error) {
	c := Comparison{Delta: delta, Plan: NewPlan(plan)}
	for _, name := range AccountantsOf(plan) {
		g, err := accountant.Epsilon(plan.History(), delta, name)
		if err != nil {
			return c, err
		}
		c.Rows = append(c.Rows, NewGuarantee(g))
	}
	return c, nil
}

// Bare has one line for each accountant: its name and ε.
func (c Comparison) Bare() string {
	text := ""
	for i, g := range c.Rows {
		if i > 0 {
			text += "\n"
		}
		text += g.Accountant + " " + FormatBound(g.Epsilon, g.Approximate)
	}
	return text
}

// Print writes a table of the accountants and the rows of the plan.
func (c Comparison) Print(w io.Writer) {
	fmt.Fprintf(w, "accountant\tepsilon\t\n")
	for _, g := range c.Rows {
		fmt.Fprintf(w, "%s\t%s\t%s\n", g.Accountant, FormatBound(g.Epsilon, g.Approximate), g.Remark())
	}
	fmt.Fprintf(w, "\ndelta\t%s\n", number.RoundUp(c.Delta))
	c.Plan.Print(w, "")
}
