package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/sample"
)

// PlannedHistory returns the history that the ledger of a run of c contains if the run goes to
// its end: all lots with their statistics, a projection and a validation. New must accept c.
// Bounds do not change the cost, so a lot's gradient groups and adaptive counts are one query
// here, which costs as much.
func PlannedHistory(c Config) ledger.History {
	n := PublicRecordCount(c)
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
	plan := accountant.Plan{Sampling: sampling, Steps: c.Steps, Noise: c.Mechanism.NoiseMultiplier, Adjacency: c.Sampling.Adjacency()}
	h := plan.History()
	h.Header.Unit = c.Records.Unit()
	for _, s := range c.Statistics {
		lot := &h.Lots[0].Lot
		lot.Queries = append(lot.Queries, c.statisticQuery(s, n))
	}
	if c.Mechanism.NoiseMultiplierAt != nil {
		h.Lots = c.lotsOfDifferentNoise(h.Lots[0].Lot)
	}
	return c.withLaterReleases(h)
}

// withLaterReleases appends the projection and the validation that the run has yet to release:
// the budget of the lots excludes them.
func (c *Config) withLaterReleases(h ledger.History) ledger.History {
	if c.awaitsProjection() {
		h.Lots = append(slices.Clip(h.Lots), ledger.RepeatedLot{Lot: c.projectionLot(h.Header.Records), Count: 1})
	}
	if c.Validation.Set != nil {
		h.Lots = append(slices.Clip(h.Lots), ledger.RepeatedLot{Lot: c.validationLot(), Count: 1})
	}
	return h
}

// lotsOfDifferentNoise returns the lots of a run where each has noise of its own.
func (c *Config) lotsOfDifferentNoise(lot ledger.Lot) (lots []ledger.RepeatedLot) {
	for i := range c.Steps {
		z := c.Mechanism.noiseMultiplier(i)
		if k := len(lots) - 1; k >= 0 && lots[k].Lot.Queries[0].Noise == z {
			lots[k].Count++
			continue
		}
		lot.Queries = slices.Clone(lot.Queries)
		lot.Queries[0].Noise = z
		lots = append(lots, ledger.RepeatedLot{Lot: lot, Count: 1})
	}
	return lots
}

// maxNoiseMultiplier is so large that the gradients cost practically nothing.
const maxNoiseMultiplier = 1e6

// CalibrateNoise returns the Mechanism.NoiseMultiplier with which all releases of a run of c cost
// epsilon at c.Budget.Delta, and no more: lots with their statistics, a projection and a
// validation. It does not read c.Mechanism.NoiseMultiplier. Where the releases other than the
// gradients cost more than epsilon, the error wraps [ErrBudget].
func CalibrateNoise(c Config, epsilon float64) (float64, error) {
	if c.Mechanism.NonPrivate || c.Mechanism.NoiseMultiplierAt != nil {
		return 0, fmt.Errorf("CalibrateNoise finds one noise multiplier for all lots of a private run: leave Mechanism.NonPrivate and Mechanism.NoiseMultiplierAt unset")
	}
	if c.Train == nil || c.Train.Len() == 0 {
		return 0, errNoExamples
	}
	index, err := newRecordIndex(c.Train, c.Records)
	if err != nil {
		return 0, err
	}
	if c.Budget.Delta == 0 {
		c.Budget.Delta = DefaultDelta(c.publicRecords(index.records))
	}
	lots := PlannedHistory(c)
	plan := accountant.Plan{Sampling: lots.Lots[0].Lot.Sampling, Steps: c.Steps, Adjacency: lots.Header.Adjacency}
	low, err := accountant.CalibrateNoise(plan, epsilon, c.Budget.Delta, c.Budget.Accountant)
	if err != nil || len(lots.Lots) == 1 && len(c.Statistics) == 0 {
		return low, err
	}
	exceeds := func(z float64) (bool, error) {
		lots.Lots[0].Lot.Queries[0].Noise = z
		a, err := accountant.Epsilon(lots, c.Budget.Delta, c.Budget.Accountant)
		return a.Epsilon > epsilon, err
	}
	if above, err := exceeds(maxNoiseMultiplier); err != nil || above {
		return 0, cmp.Or(err, fmt.Errorf("%w: the releases other than the gradients alone cost more than it; raise --validation-noise, --project-noise or the noise of the statistics", ErrBudget))
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
