package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/sample"
)

// PlannedHistory is the history that the ledger of a run of c will hold if the run goes to its
// end: all lots with their statistics, and what is released beside them. c must be one that
// New takes. Bounds cost nothing, so a lot's gradient groups and adaptive counts are one
// query here, which costs as much.
func PlannedHistory(c Config) ledger.History {
	n := RecordCount(c.Train, c.Records)
	policy := c.policy()
	sampling := ledger.Sampling{Policy: ledger.Policy(policy), Records: n}
	if lot, rate := c.draws(n); policy == sample.PolicyPoisson {
		sampling.Rate = rate
	} else {
		sampling.LotSize = lot
	}
	plan := accountant.Plan{Sampling: sampling, Steps: c.Steps, Noise: c.Mechanism.NoiseMultiplier, Adjacency: Adjacency(policy)}
	h := plan.History()
	h.Header.Unit = c.Records.Unit()
	for _, s := range c.Statistics {
		lot := &h.Lots[0].Lot
		lot.Queries = append(lot.Queries, s.query())
	}
	if c.Mechanism.NoiseMultiplierAt != nil {
		h.Lots = c.varied(h.Lots[0].Lot)
	}
	return c.withRest(h)
}

// withRest is a history with the projection and the validation to come: lots must leave
// room for them.
func (c *Config) withRest(h ledger.History) ledger.History {
	if c.projecting() {
		h.Lots = append(slices.Clip(h.Lots), ledger.RepeatedLot{Lot: c.projectionLot(h.Header.Records), Count: 1})
	}
	if c.Validation.Set != nil {
		h.Lots = append(slices.Clip(h.Lots), ledger.RepeatedLot{Lot: c.validationLot(), Count: 1})
	}
	return h
}

// varied are lots of which each has its own noise.
func (c *Config) varied(lot ledger.Lot) (spent []ledger.RepeatedLot) {
	for i := range c.Steps {
		z := c.multiplier(i)
		if k := len(spent) - 1; k >= 0 && spent[k].Lot.Queries[0].Noise == z {
			spent[k].Count++
			continue
		}
		lot.Queries = slices.Clone(lot.Queries)
		lot.Queries[0].Noise = z
		spent = append(spent, ledger.RepeatedLot{Lot: lot, Count: 1})
	}
	return spent
}

// mostNoise is what no gradient is heard through.
const mostNoise = 1e6

// CalibrateNoise finds the Config.Mechanism.NoiseMultiplier with which all that a run of c releases costs epsilon
// at c.Delta, and no more: lots with their statistics, a projection and a validation. c.Noise
// is not read. Where the releases that have noise of their own cost more without the
// gradients, the error unwraps to [ErrBudget].
func CalibrateNoise(c Config, epsilon float64) (float64, error) {
	if c.Mechanism.NonPrivate || c.Mechanism.NoiseMultiplierAt != nil {
		return 0, fmt.Errorf("CalibrateNoise finds one noise multiplier for all lots of a private run: leave Mechanism.NonPrivate and Mechanism.NoiseMultiplierAt unset")
	}
	if c.Train == nil || c.Train.Len() == 0 {
		return 0, errNoExamples
	}
	d, err := newDeck(c.Train, c.Records)
	if err != nil {
		return 0, err
	}
	if c.Budget.Delta == 0 {
		c.Budget.Delta = DefaultDelta(d.count)
	}
	lots := PlannedHistory(c)
	plan := accountant.Plan{Sampling: lots.Lots[0].Lot.Sampling, Steps: c.Steps, Adjacency: lots.Header.Adjacency}
	low, err := accountant.CalibrateNoise(plan, epsilon, c.Budget.Delta, c.Budget.Accountant)
	if err != nil || len(lots.Lots) == 1 && len(c.Statistics) == 0 {
		return low, err
	}
	over := func(z float64) (bool, error) {
		lots.Lots[0].Lot.Queries[0].Noise = z
		a, err := accountant.Epsilon(lots, c.Budget.Delta, c.Budget.Accountant)
		return a.UpperBound() > epsilon, err
	}
	if above, err := over(mostNoise); err != nil || above {
		return 0, cmp.Or(err, fmt.Errorf("%w: what is released beside the gradients costs it alone; give a larger --validation-noise or --project-noise, or statistics more noise", ErrBudget))
	}
	high := low
	for {
		above, err := over(high)
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
		above, err := over(middle)
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
