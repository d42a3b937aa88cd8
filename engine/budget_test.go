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

// ε of the closed ledger is within the budget, and one more lot would exceed it.
func TestBudget_EndsRun(t *testing.T) {
	stair := func(lot int) float64 { return max(0.5, 2-0.01*float64(lot/10)) }
	for name, change := range map[string]func(*Config){
		"poisson": func(c *Config) {},
		"fixed": func(c *Config) {
			c.Sampling.Policy, c.Sampling.Lot, c.Mechanism.NoiseMultiplier = sample.PolicyFixed, 3, 4
		},
		"shuffle":   func(c *Config) { c.Sampling.Policy, c.Budget.StopAtEpsilon = sample.PolicyShuffle, 9 },
		"scheduled": func(c *Config) { c.Mechanism.NoiseMultiplier, c.Mechanism.NoiseMultiplierAt = 0, stair },
		"fixed, scheduled": func(c *Config) {
			c.Sampling.Policy, c.Sampling.Lot, c.Steps, c.Mechanism.NoiseMultiplier, c.Mechanism.NoiseMultiplierAt = sample.PolicyFixed, 3, 100, 0, stair
		},
		"moving": func(c *Config) {
			c.Mechanism.Clipping = clip.Flat(clip.Schedule(func(i int) float64 { return 1 / float64(1+i) }), nil)
		},
		"adaptive": func(c *Config) {
			c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.1, Noise: 9}, nil)
		},
		"statistics": func(c *Config) { c.Statistics = []Statistic{MeanLoss(1, 2)} },
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && strings.HasPrefix(name, "fixed") {
				t.Skip("to account these lots takes seconds")
			}
			c := testConfig(t)
			c.Mechanism.NoiseMultiplier, c.Sampling.Lot, c.Steps, c.Budget.StopAtEpsilon, c.Budget.Delta = 2, 10, 4000, 3, 1e-5
			change(&c)
			r := newRun(t, c)
			most := 0.0
			trainRun(t, r, func(p *Progress) error {
				most = max(most, p.Epsilon)
				if p.Lot < 4 || p.Lot%50 == 0 { // as if the process were killed now
					if a, err := r.Spent(c.Budget.Accountant); err != nil || a.Epsilon > c.Budget.StopAtEpsilon {
						t.Errorf("lot %d: the ledger gives ε = %v (%v)", p.Lot, a.Epsilon, err)
					}
				}
				return nil
			})
			r.Close()
			a, err := r.Spent(c.Budget.Accountant)
			if err != nil {
				t.Fatal(err)
			}
			h := readLedger(t, c.Files.Ledger)
			if n := h.LotCount(); n != r.StepsDone() || n < 3 || n == c.Steps {
				t.Fatalf("%d lots in the ledger after %d steps", n, r.StepsDone())
			}
			if a.Epsilon > c.Budget.StopAtEpsilon || most > c.Budget.StopAtEpsilon {
				t.Errorf("ε = %v, shown up to %v, above the budget of %v", a.Epsilon, most, c.Budget.StopAtEpsilon)
			}
			last := h.Lots[len(h.Lots)-1].Lot
			if c.Mechanism.NoiseMultiplierAt != nil {
				last.Queries[0].Noise = last.Queries[0].Sensitivity * c.Mechanism.NoiseMultiplierAt(r.StepsDone())
			}
			h.Lots = append(h.Lots, ledger.RepeatedLot{Lot: last, Count: 1})
			one, err := accountant.Epsilon(h, c.Budget.Delta, c.Budget.Accountant)
			if err != nil || one.Epsilon <= c.Budget.StopAtEpsilon {
				t.Errorf("one lot more would have ε = %v (%v), within the budget", one.Epsilon, err)
			}
		})
	}
}

// New refuses a budget below the cost of one lot and writes nothing.
func TestBudget_RefusesLessThanOneLot(t *testing.T) {
	c := testConfig(t)
	c.Budget.StopAtEpsilon = 1e-3
	_, err := New(c)
	if !errors.Is(err, ErrBudget) {
		t.Errorf("error %v", err)
	}
	requireNoFiles(t, c)
}

// The last ε that the observer gets equals that of the closed ledger.
func TestProgress_EpsilonMatchesLedger(t *testing.T) {
	c := testConfig(t)
	c.Steps = 30
	r := newRun(t, c)
	shown := 0.0
	trainRun(t, r, func(p *Progress) error {
		if p.Epsilon < shown {
			t.Errorf("ε fell from %v to %v", shown, p.Epsilon)
		}
		r.account.Meter.Counted = 0 // computed again
		shown = r.account.Meter.Current(0)
		return nil
	})
	r.Close()
	a, err := r.Spent(c.Budget.Accountant)
	if err != nil || !(math.Abs(a.Epsilon-shown) <= 1e-12) {
		t.Errorf("shown %v, the ledger gives %v (%v)", shown, a.Epsilon, err)
	}
}

// Train checks the context between lots, and Close returns the reserved lots.
func TestTrain_StopsAtContextEnd(t *testing.T) {
	c := testConfig(t)
	c.Steps = 1000
	r := newRun(t, c)
	ctx, stop := context.WithCancel(t.Context())
	err := r.Train(ctx, func(p *Progress) error {
		if p.Lot == 37 {
			stop()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || r.StepsDone() != 37 {
		t.Errorf("error %v after %d lots", err, r.StepsDone())
	}
	r.Close()
	if n := readLedger(t, c.Files.Ledger).LotCount(); n != 37 {
		t.Errorf("the ledger contains %d lots", n)
	}
}

// A crash lost the last lots of a budget: the resumed run trains no further and has the weights
// that were paid for. A smaller budget is refused.
func TestResume_UsedUpBudget(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"poisson": func(*Config) {},
		"scheduled": func(c *Config) {
			c.Mechanism.NoiseMultiplier, c.Mechanism.NoiseMultiplierAt = 0, func(int) float64 { return 2 }
		},
		"shuffle": func(c *Config) { c.Sampling.Policy, c.Budget.StopAtEpsilon = sample.PolicyShuffle, 30 },
	} {
		c := testConfig(t)
		c.Mechanism.NoiseMultiplier, c.Sampling.Lot, c.Steps, c.Budget.Delta, c.Budget.StopAtEpsilon = 2, 10, 1000, 1e-5, 3
		c.Files.CheckpointFolder = filepath.Join(t.TempDir(), "checkpoint")
		change(&c)
		r := newRun(t, c)
		stopped := errors.New("stopped")
		if err := r.Train(context.Background(), func(p *Progress) error { return stopped }); err != stopped {
			t.Fatal(err)
		}
		want, left := flatWeights(t, r), r.account.Meter.Allowed
		for range left {
			if err := r.account.SpendLot(r.lot.Mechanism.Entry, c.Steps-r.step, r.lot.Mechanism.EqualLots(r.step)); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		again := resumeRun(t, c)
		trainRun(t, again, nil)
		if again.StepsDone() != 1 || !slices.Equal(flatWeights(t, again), want) {
			t.Errorf("%s: %d lots, or other weights", name, again.StepsDone())
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		if a, err := again.Spent(c.Budget.Accountant); err != nil || a.Epsilon > c.Budget.StopAtEpsilon || readLedger(t, c.Files.Ledger).LotCount() != 1+left {
			t.Errorf("%s: ε = %v, %d lots of %d (%v)", name, a.Epsilon, readLedger(t, c.Files.Ledger).LotCount(), 1+left, err)
		}
		if c.Mechanism.NoiseMultiplierAt == nil {
			if _, err := c.AffordableSteps(); !errors.Is(err, ErrBudget) {
				t.Errorf("%s: extended, %v", name, err)
			}
		}
		c.Budget.StopAtEpsilon /= 2
		if _, err := Resume(c); !errors.Is(err, ErrBudget) {
			t.Errorf("%s: resumed with half of what was spent, %v", name, err)
		}
	}
}

// Before the first lot, and after an early end, PlannedEpsilon is the cost of the whole plan,
// which the ledger gives once the plan is complete.
func TestPlannedEpsilon_MatchesCompleteRun(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"lots": func(*Config) {},
		"scheduled": func(c *Config) {
			c.Mechanism.NoiseMultiplier, c.Mechanism.NoiseMultiplierAt = 0, func(lot int) float64 { return 2 + float64(lot%3) }
		},
		"validation": func(c *Config) { c.Validation = Validation{Set: mlpExamples(400, 9), Noise: 2} },
		"projection": func(c *Config) {
			c.Network, c.Projection = nil, Projection{Directions: 3, Noise: 4, Network: denseOnProjection}
		},
		"budget": func(c *Config) { c.Budget.StopAtEpsilon = 1.2 },
	} {
		c := checkpointedConfig(t)
		c.Mechanism.NoiseMultiplier, c.Sampling.Lot, c.Steps, c.Budget.Delta, c.Seed = 2, 10, 20, 1e-5, nil
		change(&c)
		r := newRun(t, c)
		first, err := r.PlannedEpsilon()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		stop := func(p *Progress) error {
			if p.Lot >= 4 {
				cancel()
			}
			return nil
		}
		if err := r.Train(ctx, stop); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		planned, err := r.PlannedEpsilon()
		if err != nil {
			t.Fatal(err)
		}
		again := resumeRun(t, c)
		trainRun(t, again, nil)
		if c.Validation.Set != nil {
			if _, err := again.Validate(); err != nil {
				t.Fatal(err)
			}
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		a, err := again.Spent(c.Budget.Accountant)
		if off := max(math.Abs(planned-a.Epsilon), math.Abs(first-a.Epsilon)); err != nil || off > 1e-9*planned {
			t.Errorf("%s: planned ε = %v, before the first lot %v, and all of it cost %v (%v)", name, planned, first, a.Epsilon, err)
		}
	}
	c := testConfig(t)
	c.Mechanism.NonPrivate = true
	if planned, err := newRun(t, c).PlannedEpsilon(); err != nil || !math.IsInf(planned, 1) {
		t.Errorf("without privacy: planned ε = %v (%v)", planned, err)
	}
}
