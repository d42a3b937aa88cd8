package engine

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/sample"
)

// adaptiveConfig is a run whose noise follows a released statistic.
func adaptiveConfig(t testing.TB) Config {
	c := testConfig(t)
	c.Steps, c.Mechanism.NoiseMultiplier = 500, 2
	c.Budget.StopAtEpsilon, c.Budget.Delta = 6, 1e-3
	c.Statistics = []Statistic{Accuracy(1, 4)}
	c.Mechanism.Choose = func(p *Progress) LotChoice {
		if p.Released[0].Lot == 0 {
			return LotChoice{}
		}
		return LotChoice{NoiseMultiplier: 1.5 + math.Abs(p.Released[0].Mean[0]), ClipFactor: 0.25 + math.Abs(p.Released[0].Mean[0])}
	}
	return c
}

// lotsOf lists the lots of a history one by one.
func lotsOf(h ledger.History) (lots []ledger.Lot) {
	for _, l := range h.Lots {
		for range l.Count {
			lots = append(lots, l.Lot)
		}
	}
	return lots
}

// The ledger states the noise and the bounds that Choose chose, the filter admits the lots up to its
// budget and no more, and the odometer reads them.
func TestChoose_FilterEnforcesBudget(t *testing.T) {
	c := adaptiveConfig(t)
	var chosen []LotChoice
	choose := c.Mechanism.Choose
	c.Mechanism.Choose = func(p *Progress) LotChoice {
		if p.Lot != len(chosen) {
			t.Errorf("a choice for lot %d, %d were made", p.Lot, len(chosen))
		}
		chosen = append(chosen, choose(p))
		return chosen[len(chosen)-1]
	}
	r := newRun(t, c)
	last := 0.0
	err := r.Train(context.Background(), func(p *Progress) error {
		last = p.Epsilon
		if !(p.BudgetUsed > 0 && p.BudgetUsed <= 1) {
			t.Errorf("lot %d: %v of the budget is used", p.Lot, p.BudgetUsed)
		}
		return nil
	})
	if !errors.Is(err, ErrBudget) || !strings.Contains(err.Error(), "would exceed ε = 6") {
		t.Fatalf("the run ended with %v", err)
	}
	if planned, err := r.PlannedEpsilon(); err != nil || planned != 6 {
		t.Errorf("the run costs %v, want the budget of the filter; %v", planned, err)
	}
	order := r.config.Budget.FilterOrder
	r.Close()
	h := readLedger(t, c.Files.Ledger)
	lots := lotsOf(h)
	if len(lots) != r.StepsDone() || len(lots) != len(chosen)-1 || len(lots) < 5 || len(lots) == c.Steps {
		t.Fatalf("%d lots in the ledger, %d done, %d choices", len(lots), r.StepsDone(), len(chosen))
	}
	filter, err := accountant.NewFilter(6, c.Budget.Delta, order, ledger.ZeroOut)
	if err != nil {
		t.Fatal(err)
	}
	different := 0
	for i, lot := range lots {
		want := chosen[i]
		if i == 0 {
			want = LotChoice{2, 1}
		}
		q := lot.Queries[0]
		if math.Abs(q.Noise/q.Sensitivity/want.NoiseMultiplier-1) > 1e-6 || q.Sensitivity != want.ClipFactor {
			t.Errorf("lot %d: %+v in the ledger, %+v was chosen", i, q, want)
		}
		if i > 0 && q.Noise != lots[i-1].Queries[0].Noise {
			different++
		}
		if ok, err := filter.Admit(lot, 1); !ok || err != nil {
			t.Errorf("lot %d: a filter with the order of the run does not admit it: %v", i, err)
		}
	}
	if different < 3 {
		t.Errorf("the noise changed %d times", different)
	}
	refused := lots[len(lots)-1]
	refused.Queries = slices.Clone(refused.Queries)
	refused.Queries[0].Noise = chosen[len(chosen)-1].NoiseMultiplier * refused.Queries[0].Sensitivity
	if ok, _ := filter.Admit(refused, 1); ok {
		t.Error("the filter admits the lot that the run refused")
	}
	o, err := accountant.OdometerOf(h, c.Budget.Delta)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(o.Epsilon()/last-1) > 1e-9 {
		t.Errorf("the odometer showed %v, and reads %v from the ledger", last, o.Epsilon())
	}
}

// A resumed run continues with the order of its filter and with what was spent, and refuses another
// budget.
func TestChoose_Resume(t *testing.T) {
	c := adaptiveConfig(t)
	c.Files.CheckpointFolder = t.TempDir()
	r := newRun(t, c)
	stopped := func(p *Progress) error {
		if p.Lot%4 == 0 {
			return ErrStop
		}
		return nil
	}
	trainRun(t, r, stopped)
	used, order := r.config.Mechanism.adaptive.UsedFraction(), r.config.Budget.FilterOrder
	r.Close()
	other := c
	other.Budget.StopAtEpsilon = 7
	if _, err := Resume(other); err == nil || !strings.Contains(err.Error(), "budget of the filter") {
		t.Errorf("resumed with another budget: %v", err)
	}
	again, err := Resume(c)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if f := again.config.Mechanism.adaptive.UsedFraction(); math.Abs(f/used-1) > 1e-9 || again.config.Budget.FilterOrder != order {
		t.Errorf("%v of the budget is used at order %v, before it was %v at %v", f, again.config.Budget.FilterOrder, used, order)
	}
	trainRun(t, again, stopped)
	if again.StepsDone() != 8 || !(again.config.Mechanism.adaptive.UsedFraction() > used) {
		t.Errorf("%d lots, %v of the budget", again.StepsDone(), again.config.Mechanism.adaptive.UsedFraction())
	}
}

func TestChoose_Refused(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"requires Budget.StopAtEpsilon": func(c *Config) { c.Budget.StopAtEpsilon = 0 },
		"compute the schedule in Choose": func(c *Config) {
			c.Mechanism.NoiseMultiplier, c.Mechanism.NoiseMultiplierAt = 0, func(int) float64 { return 2 }
		},
		"a group without it": func(c *Config) {
			c.Mechanism.NoiseMultiplier, c.Mechanism.GroupNoiseMultipliers = 0, map[string]float64{"gradient": 2}
		},
		"shuffled lots": func(c *Config) { c.Sampling.Policy = sample.PolicyShuffle },
		"without privacy": func(c *Config) {
			c.Mechanism = Mechanism{NonPrivate: true, Choose: c.Mechanism.Choose}
			c.Budget.StopAtEpsilon = 0
		},
		"one lot with Mechanism.Noise":    func(c *Config) { c.Mechanism.NoiseMultiplier = 0.01 },
		"leaves no budget":                func(c *Config) { c.Budget.FilterOrder = 1.01 },
		"without Mechanism.Choose":        func(c *Config) { c.Mechanism.Choose, c.Budget.FilterOrder = nil, 3 },
		"whose noise is given, cost more": func(c *Config) { c.Validation = Validation{Set: mlpExamples(20, 9), Noise: 0.1} },
	} {
		c := adaptiveConfig(t)
		change(&c)
		if r, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
			if err == nil {
				r.Close()
			}
		}
	}
	for want, choice := range map[string]LotChoice{
		"noise multiplier -1": {NoiseMultiplier: -1},
		"clip factor NaN":     {ClipFactor: math.NaN()},
		"would exceed":        {NoiseMultiplier: 0.01},
	} {
		c := adaptiveConfig(t)
		c.Mechanism.Choose = func(p *Progress) LotChoice {
			if p.Lot == 2 {
				return choice
			}
			return LotChoice{}
		}
		r := newRun(t, c)
		if err := r.Train(context.Background(), nil); err == nil || !strings.Contains(err.Error(), want) || r.StepsDone() != 2 {
			t.Errorf("%d lots, %v, want %q", r.StepsDone(), err, want)
		}
		r.Close()
		if n := readLedger(t, c.Files.Ledger).LotCount(); n != 2 {
			t.Errorf("%s: the ledger has %d lots", want, n)
		}
	}
}

// An adaptive bound follows its counts, not the factor.
func TestChoose_QuantileFollowsCounts(t *testing.T) {
	c := adaptiveConfig(t)
	c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.2, Noise: 10}, nil)
	c.Mechanism.Choose = func(*Progress) LotChoice { return LotChoice{ClipFactor: 1e-3} }
	c.Steps = 3
	trainRun(t, newRun(t, c), nil)
	for _, lot := range lotsOf(readLedger(t, c.Files.Ledger)) {
		if s := lot.Queries[0].Sensitivity; !(s > 0.1) {
			t.Errorf("a sensitivity of %v", s)
		}
	}
}

// A schedule that answers differently in the run than before it is a choice without a filter.
func TestSchedule_ChangedNoiseIsRefused(t *testing.T) {
	c := testConfig(t)
	z := 2.0
	c.Mechanism.NoiseMultiplier, c.Mechanism.NoiseMultiplierAt = 0, func(int) float64 { return z }
	r := newRun(t, c)
	err := r.Train(context.Background(), func(*Progress) error {
		z = 1.5
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "Mechanism.Choose") {
		t.Errorf("a changed schedule: %v", err)
	}
}

// A run that its observer ends costs its plan, independently of what it released.
func TestStop_CostsThePlan(t *testing.T) {
	c := testConfig(t)
	c.Steps = 40
	whole := newRun(t, c)
	planned, err := whole.PlannedEpsilon()
	if err != nil {
		t.Fatal(err)
	}
	c.Files.Ledger = filepath.Join(t.TempDir(), "ledger.jsonl")
	r := newRun(t, c)
	trainRun(t, r, func(p *Progress) error {
		if p.Lot == 7 {
			return ErrStop
		}
		return nil
	})
	if cost, err := r.PlannedEpsilon(); err != nil || cost != planned || r.StepsDone() != 7 {
		t.Errorf("%d lots, cost %v, want %v; %v", r.StepsDone(), cost, planned, err)
	}
	trainRun(t, r, nil)
	if cost, err := r.PlannedEpsilon(); err != nil || math.Abs(cost/planned-1) > 1e-12 || r.StepsDone() != 40 {
		t.Errorf("continued: %d lots, cost %v, want %v; %v", r.StepsDone(), cost, planned, err)
	}
}

// The filter of every policy uses the adjacency of its lots.
func TestChoose_EverySampling(t *testing.T) {
	for policy, adjacency := range map[sample.Policy]ledger.Adjacency{sample.PolicyFixed: ledger.ReplaceOne, sample.PolicyTruncated: ledger.ZeroOut, sample.PolicyPoisson: ledger.AddRemove} {
		c := adaptiveConfig(t)
		c.Sampling.Policy, c.Steps, c.Budget.StopAtEpsilon = policy, 2, 40
		if policy == sample.PolicyPoisson {
			c.Sampling.Population = 60
		}
		r := newRun(t, c)
		trainRun(t, r, nil)
		r.Close()
		h := readLedger(t, c.Files.Ledger)
		f, err := accountant.NewFilter(40, c.Budget.Delta, r.config.Budget.FilterOrder, adjacency)
		if err != nil {
			t.Fatal(err)
		}
		for _, lot := range lotsOf(h) {
			if ok, err := f.Admit(lot, 1); !ok || err != nil {
				t.Errorf("%s: %v, %v", policy, ok, err)
			}
		}
		if used := r.config.Mechanism.adaptive.UsedFraction(); math.Abs(used/f.UsedFraction()-1) > 1e-9 || h.Header.Adjacency != adjacency {
			t.Errorf("%s: %v of the budget is used, want %v under %s; the ledger states %s", policy, used, f.UsedFraction(), adjacency, h.Header.Adjacency)
		}
	}
}

// The filter of a run with a projection has spent it before the first choice, and the ledger stays within the budget.
func TestChoose_AfterProjection(t *testing.T) {
	c := adaptiveConfig(t)
	c.Network, c.Projection = nil, Projection{Directions: 2, Noise: 2, Network: denseOnProjection}
	choose, first := c.Mechanism.Choose, math.NaN()
	c.Mechanism.Choose = func(p *Progress) LotChoice {
		if p.Lot == 0 {
			first = p.BudgetUsed
		}
		return choose(p)
	}
	r := newRun(t, c)
	if err := r.Train(context.Background(), nil); !errors.Is(err, ErrBudget) {
		t.Fatalf("the run ended with %v", err)
	}
	r.Close()
	if !(first > 0.01) {
		t.Errorf("before the first lot %v of the budget is used", first)
	}
	h := readLedger(t, c.Files.Ledger)
	if spent, err := accountant.Epsilon(h, c.Budget.Delta, "rdp"); err != nil || !(spent.Epsilon <= 6) || len(lotsOf(h)) != r.StepsDone()+1 {
		t.Errorf("ε = %v after %d lots and a projection, %d in the ledger; %v", spent.Epsilon, r.StepsDone(), len(lotsOf(h)), err)
	}
}
