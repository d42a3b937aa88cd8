package settings

import (
	"fmt"
	"sort"
	"strings"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/engine"
)

// NoiseRules change the noise of a run by released metrics: the rules of --noise-schedule. The choices
// depend on releases, so a filter enforces the budget ([engine.Mechanism.Choose]).
//
// The rules are in order. The value of the metric that fulfils the condition of a rule sets the noise of
// the lots after it, and the next rule begins. The state is a function of the released values.
type NoiseRules struct {
	rules []noiseRule
	next  int     // the rule that the next value may fulfil
	read  int     // the last lot whose values were read, from 1
	noise float64 // the present multiplier
}

// noiseRule is CONDITION->Z or CONDITION->xF.
type noiseRule struct {
	condition *StopCondition
	noise     float64
	isFactor  bool // noise multiplies the noise before
}

const noiseScheduleSyntax = "write when:CONDITION->Z,… with a noise multiplier Z, or xF for F times the noise before; a CONDITION is accuracy>=X, loss<=X or no-gain:N, as in when:accuracy>=0.8->1.2,no-gain:3->x0.7"

// parseNoiseRules parses --noise-schedule.
func parseNoiseRules(text string) (*NoiseRules, error) {
	list, found := strings.CutPrefix(text, "when:")
	if !found {
		return nil, fmt.Errorf("%q: %s", text, noiseScheduleSyntax)
	}
	n := &NoiseRules{}
	for item := range strings.SplitSeq(list, ",") {
		condition, value, found := strings.Cut(strings.TrimSpace(item), "->")
		if !found {
			return nil, fmt.Errorf("%q: %s", item, noiseScheduleSyntax)
		}
		var r noiseRule
		var err error
		if r.condition, err = parseCondition(condition); err != nil {
			return nil, fmt.Errorf("%q: %w", condition, err)
		}
		if r.condition.OnTest {
			return nil, fmt.Errorf("%q: the noise follows released metrics, not test data; use accuracy>=X, loss<=X or no-gain:N", condition)
		}
		value, r.isFactor = strings.CutPrefix(value, "x")
		if r.noise, err = parsePositive(value); err != nil {
			return nil, fmt.Errorf("%q: %w", item, err)
		}
		n.rules = append(n.rules, r)
	}
	return n, nil
}

// resolveNoiseRules sets the rules of --noise-schedule. The noise of the first lot and the budget are set.
func (s *Spec) resolveNoiseRules() (err error) {
	f, c := s.Flags, &s.Config
	if s.NoiseRules, c.Mechanism.Choose = nil, nil; f.NoiseSchedule == "" {
		return nil
	}
	fail := func(format string, values ...any) error {
		return exitcode.Usagef("--noise-schedule %s: %s", f.NoiseSchedule, fmt.Sprintf(format, values...))
	}
	if s.NoiseRules, err = parseNoiseRules(f.NoiseSchedule); err != nil {
		return exitcode.Usagef("--noise-schedule: %w", err)
	}
	switch {
	case c.Budget.StopAtEpsilon == 0:
		return fail("give --stop-at-epsilon, which a filter enforces for all values of the metrics")
	case f.Accountant != "rdp":
		return fail("the filter adds Rényi divergences: use --accountant rdp, or drop the flag")
	case f.Sampling == "shuffle":
		return fail("the cost of shuffled lots is that of whole passes: use --sampling poisson, truncated or fixed")
	case f.allGroupsHaveNoise || len(c.Mechanism.GroupNoiseMultiplierAt) > 0:
		return fail("it is the noise of the groups without noise of their own: drop noise= of a --group")
	}
	for i := range s.NoiseRules.rules {
		if err := s.NoiseRules.rules[i].condition.findReleased(f); err != nil {
			return exitcode.Usagef("--noise-schedule: %w", err)
		}
	}
	s.NoiseRules.noise, c.Mechanism.Choose = c.Mechanism.NoiseMultiplier, s.NoiseRules.choose
	if f.Resume == "" { // a resumed run continues with the order of its filter
		c.Budget.FilterOrder, err = s.NoiseRules.filterOrder(*c)
	}
	return err
}

// filterOrder returns the best order for a run that has equally many lots with each noise of the rules, and
// as many as the budget allows. The order is public, and the guarantee holds for all.
func (n *NoiseRules) filterOrder(c engine.Config) (float64, error) {
	c.Mechanism.Choose = nil
	plan := func(lots int) ledger.History {
		c.Steps = lots
		h := c.PlannedHistory()
		each, noise := c, c.Mechanism.NoiseMultiplier
		each.Validation, each.Projection = engine.Validation{}, engine.Projection{}
		for _, r := range n.rules {
			noise = r.after(noise)
			each.Mechanism.NoiseMultiplier = noise
			h.Lots = append(h.Lots, each.PlannedHistory().Lots...)
		}
		return h
	}
	cost := func(lots int) (accountant.Guarantee, error) {
		return accountant.Epsilon(plan(lots), c.Budget.Delta, "rdp")
	}
	var failed error
	most := max(1, c.Steps/(len(n.rules)+1))
	lots := sort.Search(most, func(i int) bool {
		a, err := cost(i + 1)
		if err != nil {
			failed = err
		}
		return a.Epsilon > c.Budget.StopAtEpsilon
	})
	if failed != nil {
		return 0, failed
	}
	if lots == 0 {
		return 0, fmt.Errorf("%w: one lot with each noise of --noise-schedule costs more than ε = %g: raise the noise or the budget", engine.ErrBudget, c.Budget.StopAtEpsilon)
	}
	a, err := cost(lots)
	return a.Order, err
}

// choose returns the choice for the next lot.
func (n *NoiseRules) choose(p *engine.Progress) engine.LotChoice {
	if p.Lot > n.read {
		for _, m := range p.Released {
			if m.Lot == p.Lot && len(m.Mean) == 1 {
				n.Observe(m.Name, m.Mean[0])
			}
		}
		n.read = p.Lot
	}
	return engine.LotChoice{NoiseMultiplier: n.noise}
}

// Observe reads a released value of a metric.
func (n *NoiseRules) Observe(metric string, value float64) {
	if n.next == len(n.rules) {
		return
	}
	r := &n.rules[n.next]
	if r.condition.Metric != metric || !r.condition.Observe(value) {
		return
	}
	n.next++
	n.noise = r.after(n.noise)
}

// after returns the multiplier that the rule sets in place of the one before.
func (r *noiseRule) after(noise float64) float64 {
	if r.isFactor {
		return noise * r.noise
	}
	return r.noise
}

// ContinueAfter states that the values up to a lot were read.
func (n *NoiseRules) ContinueAfter(lot int) { n.read = lot }

// Noise returns the present noise multiplier, and the number of conditions that were fulfilled.
func (n *NoiseRules) Noise() (multiplier float64, fulfilled int) { return n.noise, n.next }
