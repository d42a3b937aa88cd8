package engine

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/internal/account"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/engine/internal/state"
)

// LotChoice is a choice of [Mechanism.Choose] for a lot.
type LotChoice struct {
	NoiseMultiplier float64 // z of the groups without noise of their own; 0: Mechanism.NoiseMultiplier
	ClipFactor      float64 // the bounds of all groups times this number, except for clip.Quantile; 0: 1
}

func (c LotChoice) check() error {
	if c.NoiseMultiplier != 0 {
		if err := release.CheckMultiplier(c.NoiseMultiplier); err != nil {
			return err
		}
	}
	if !(c.ClipFactor >= 0) || math.IsInf(c.ClipFactor, 1) {
		return fmt.Errorf("clip factor %v: give a finite number above 0, or 0 for the bounds as they are", c.ClipFactor)
	}
	return nil
}

// adaptiveLots makes the choices of Mechanism.Choose and enforces the budget of a run with them.
//
// It promises what [account.Filter] promises: all lots of the run, those before a resumption
// included, and its projection and validation together satisfy (ε, δ)-differential privacy with
// Budget.StopAtEpsilon and Budget.Delta, for choices and an end that depend on released values. The
// order of the filter is fixed before the first lot.
type adaptiveLots struct {
	choose func(*Progress) LotChoice
	base   LotChoice // in place of zeros
	choice LotChoice // of the current lot
	account.Filter
}

// checkChoose checks a run with adaptive noise, and lets the schedules of noise and bounds follow
// its choices.
func (c *Config) checkChoose() error {
	m, b := &c.Mechanism, &c.Budget
	switch {
	case m.Choose == nil && b.FilterOrder != 0:
		return fmt.Errorf("Budget.FilterOrder is %v without Mechanism.Choose: it has no effect; drop it", b.FilterOrder)
	case m.Choose == nil:
		return nil
	case b.StopAtEpsilon == 0:
		return fmt.Errorf("Mechanism.Choose requires Budget.StopAtEpsilon: a filter enforces this ε for choices that depend on released values")
	case m.NoiseMultiplierAt != nil || len(m.GroupNoiseMultiplierAt) > 0:
		return fmt.Errorf("both Mechanism.Choose and a noise multiplier for each lot are set: compute the schedule in Choose")
	case !m.noise().IsShared():
		return fmt.Errorf("every group has noise of its own, so Mechanism.Choose cannot choose noise: leave a group without it")
	case c.Sampling.Policy == "shuffle":
		return fmt.Errorf("Mechanism.Choose with shuffled lots: their cost is that of whole passes; use Poisson, truncated or fixed lots")
	}
	a := &adaptiveLots{choose: m.Choose, base: LotChoice{m.NoiseMultiplier, 1}}
	a.choice, m.adaptive = a.base, a
	m.NoiseMultiplier, m.NoiseMultiplierAt = 0, func(int) float64 { return a.choice.NoiseMultiplier }
	m.Clipping = slices.Clone(m.Clipping)
	for i, g := range m.Clipping {
		if _, adapts := g.Bound.(clip.Quantile); !adapts && g.Bound != nil {
			m.Clipping[i].Bound = clip.Schedule(func(lot int) float64 { return g.Bound.At(lot) * a.choice.ClipFactor })
		}
	}
	return nil
}

// chooseNoise asks for the choice of the next lot and spends its cost, in a run with Mechanism.Choose. An
// error refuses the choice: the lot did not begin, and another call may choose again.
func (r *Run) chooseNoise(p *Progress) error {
	a := r.config.Mechanism.adaptive
	if a == nil {
		return nil
	}
	p.Lot, p.Epsilon, p.BudgetUsed = r.step, a.Epsilon(), a.UsedFraction()
	var choice LotChoice
	if !r.config.followsRankZero() {
		choice = a.choose(p)
	}
	if err := r.team.TakeFromRankZero(&choice); err != nil {
		return err
	}
	if err := choice.check(); err != nil {
		return fmt.Errorf("lot %d: Mechanism.Choose: %w", r.step, err)
	}
	if choice.NoiseMultiplier == 0 {
		choice.NoiseMultiplier = a.base.NoiseMultiplier
	}
	if choice.ClipFactor == 0 {
		choice.ClipFactor = 1
	}
	a.choice = choice
	if err := r.lot.Mechanism.SetLot(r.step); err != nil {
		return fmt.Errorf("lot %d: Mechanism.Choose: %w", r.step, err)
	}
	entry := r.lot.Mechanism.Entry
	for _, q := range entry.Queries {
		if err := r.config.arithmetic().Check(q, r.Event().Records); err != nil {
			return fmt.Errorf("lot %d: Mechanism.Choose: %w", r.step, err)
		}
	}
	ok, err := a.Spend(entry, 1)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w: lot %d with noise multiplier %v would exceed ε = %g, of which the filter has spent %.4g%%; choose more noise, or end the run", ErrBudget, r.step, choice.NoiseMultiplier, r.config.Budget.StopAtEpsilon, 100*a.UsedFraction())
	}
	return nil
}

// setFilterOrder sets the default of the order of a filter: the best one for equal lots.
func (r *Run) setFilterOrder() (err error) {
	c := &r.config
	if c.Mechanism.adaptive != nil && c.Budget.FilterOrder == 0 {
		past := ledger.History{Header: r.ledgerHeader()}
		c.Budget.FilterOrder, err = account.BestOrder(c.plan(r.lot.Mechanism, past, 0))
	}
	return err
}

// adoptFilterOrder continues with the order of a saved run's filter unless c sets one.
func (c *Config) adoptFilterOrder(saved *state.Checkpoint) {
	if c.Mechanism.Choose == nil || c.Budget.FilterOrder != 0 {
		return
	}
	if order, ok := saved.Run.Value(filterOrderEntry); ok {
		c.Budget.FilterOrder, _ = strconv.ParseFloat(order, 64) // 0, the default, differs from the saved order
	}
}
