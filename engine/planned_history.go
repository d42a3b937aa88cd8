package engine

import (
	"cmp"
	"fmt"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/internal/account"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/setting"
)

// PlannedHistory returns the history that the ledger of a run of c contains if the run goes to
// its end: all lots with their statistics, a projection and a validation. New must accept c.
// Bounds do not change the cost: every gradient group has the bound 1 here. The groups without noise
// of their own and the adaptive counts are one query, which costs as much as they do.
func (c Config) PlannedHistory() ledger.History {
	n := c.PublicRecordCount()
	c.Mechanism.Arithmetic = cmp.Or(c.Mechanism.Arithmetic, ExactArithmetic)
	c.Sampling.Policy = c.Sampling.policy()
	policy := c.Sampling.Policy
	sampling := ledger.Sampling{Policy: ledger.Policy(policy), Records: n}
	lot, rate := c.Sampling.lotAndRate(n)
	switch policy {
	case sample.PolicyPoisson:
		sampling.Rate = rate
	case sample.PolicyTruncated:
		sampling.Rate, sampling.LotSize = rate, c.Sampling.maxLot(n)
	default:
		sampling.LotSize = lot
	}
	lots := accountant.Plan{Sampling: sampling, Steps: c.Steps, Noise: c.Mechanism.CombinedNoiseMultiplier(0),
		Adjacency: c.Sampling.Adjacency()}
	h := lots.History()
	h.Header.Unit = c.Records.Unit()
	m, lattice := c.mechanism(sample.Event{Records: n}, 0), int64(plan.Bound)
	if c.LocalTraining.Steps > 0 {
		lattice = release.StatisticLattice
	}
	if m.LotsDiffer() {
		h.Lots = nil
		for lot := range c.Steps {
			h.Lots = account.AppendLot(h.Lots, 0, ledger.Lot{Sampling: sampling, Queries: m.PlannedQueries(lot, lattice)})
		}
	} else {
		h.Lots[0].Lot.Queries = m.PlannedQueries(0, lattice)
	}
	h.Lots = m.Releases.AppendOnce(h.Lots)
	return h
}

// PlannedLots returns the lots of a whole run with their groups, as the ledger of a run that goes
// to its end states them, except that adaptive bounds stay at their first values; nil where the run
// is not private. Like PlannedHistory it reads settings only.
func (r *Run) PlannedLots() (lots []ledger.RepeatedLot) {
	m := r.lot.Mechanism
	if m.Clipper == nil {
		return nil
	}
	plan := func(lot int) ledger.Lot {
		return m.PlannedLot(lot, func(g int) float64 { return r.config.Mechanism.Clipping[g].Bound.At(lot) })
	}
	if !m.IsScheduled() && !m.LotsDiffer() {
		return []ledger.RepeatedLot{{Lot: plan(0), Count: m.Steps}}
	}
	for lot := range m.Steps {
		lots = account.AppendLot(lots, 0, plan(lot))
	}
	return lots
}

// maxNoiseMultiplier is so large that the gradients cost practically nothing.
const maxNoiseMultiplier = 1e6

// CalibrateNoise returns the Mechanism.NoiseMultiplier with which all releases of a run of c cost
// epsilon at c.Budget.Delta, and no more: lots with their statistics and the groups with noise of
// their own, a projection and a validation. It does not read c.Mechanism.NoiseMultiplier. Where the
// releases with other noise cost more than epsilon, the error wraps [ErrBudget].
func (c Config) CalibrateNoise(epsilon float64) (float64, error) {
	if c.Mechanism.NonPrivate || c.Mechanism.NoiseMultiplierAt != nil || !c.Mechanism.noise().IsShared() {
		return 0, fmt.Errorf("CalibrateNoise finds one noise multiplier for all lots of a private run: leave Mechanism.NonPrivate and Mechanism.NoiseMultiplierAt unset, and a group without noise of its own")
	}
	if c.Train == nil || c.Train.Len() == 0 {
		return 0, errNoExamples
	}
	if err := cmp.Or(c.Budget.CheckEpsilon(epsilon), c.checkValidationNoise(), c.checkProjectionNoise()); err != nil {
		return 0, err
	}
	index, err := c.Records.index(c.Train)
	if err != nil {
		return 0, err
	}
	c.Budget.setDelta(c.publicRecords(index.Records))
	c.Mechanism.NoiseMultiplier = 1
	lots := c.PlannedHistory()
	plan := accountant.Plan{Sampling: lots.Lots[0].Lot.Sampling, Steps: c.Steps, Adjacency: lots.Header.Adjacency}
	if c.Mechanism.addsLaplace() {
		plan.Groups = []ledger.Query{{Group: "all", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: 1}}
	}
	low, err := accountant.CalibrateNoise(plan, epsilon, c.Budget.Delta, c.Budget.Accountant)
	if err != nil || len(lots.Lots) == 1 && len(lots.Lots[0].Lot.Queries) == 1 {
		return low, err
	}
	exceeds := func(z float64) (bool, error) {
		c.Mechanism.NoiseMultiplier = z
		a, err := accountant.Epsilon(c.PlannedHistory(), c.Budget.Delta, c.Budget.Accountant)
		return a.Epsilon > epsilon, err
	}
	if above, err := exceeds(maxNoiseMultiplier); err != nil || above {
		return 0, cmp.Or(err, setting.Errorf("Validation.Noise", "%w: the releases whose noise is given cost more than it; raise %v, %v, or the noise of the groups and statistics",
			ErrBudget, setting.Named("Validation.Noise"), setting.Named("Projection.Noise")))
	}
	high := low
	for {
		above, err := exceeds(high)
		if err != nil {
			return 0, err
		}
		if !above {
			break
		}
		low, high = high, high*1.1
	}
	for high > low*(1+1e-4) {
		middle := (low + high) / 2
		above, err := exceeds(middle)
		if err != nil {
			return 0, err
		}
		if above {
			low = middle
		} else {
			high = middle
		}
	}
	return high, nil
}
