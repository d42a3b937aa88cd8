package engine

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/sample"
)

// A run resumed with AffordableSteps lots does all of them within the budget; with more, it ends
// there. Lots that a crash lost, an interrupted pass and a later validation reduce the number.
func TestAffordableSteps_WithinBudget(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"poisson":    func(*Config) {},
		"fixed":      func(c *Config) { c.Sampling.Policy, c.Budget.StopAtEpsilon = sample.PolicyFixed, 9 },
		"shuffle":    func(c *Config) { c.Sampling.Policy, c.Budget.StopAtEpsilon = sample.PolicyShuffle, 30 },
		"validation": func(c *Config) { c.Validation = Validation{Set: mlpExamples(40, 9), Noise: 4} },
	} {
		if testing.Short() && name == "fixed" {
			continue // accounting for these lots takes seconds
		}
		for lost, more := range map[int]int{0: 5, 13: 0} {
			c := testConfig(t)
			c.Mechanism.NoiseMultiplier, c.Sampling.Lot, c.Steps, c.Budget.Delta, c.Budget.Accountant = 2, 10, 7, 1e-5, "rdp"
			c.Files.CheckpointFolder = filepath.Join(t.TempDir(), "checkpoint")
			c.Budget.StopAtEpsilon = 3
			change(&c)
			r := newRun(t, c)
			trainRun(t, r, nil)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if lost > 0 {
				l, err := ledger.Open(c.Files.Ledger)
				if err != nil {
					t.Fatal(err)
				}
				for range lost {
					if err := l.Spend(r.lot.Mechanism.CostOfLot(0)); err != nil {
						t.Fatal(err)
					}
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
			steps, err := c.AffordableSteps()
			if err != nil || steps <= 7 {
				t.Fatalf("%s: extended to %d lots, %v", name, steps, err)
			}
			c.Steps = steps + more
			r = resumeRun(t, c)
			trainRun(t, r, nil)
			if r.StepsDone() != steps {
				t.Errorf("%s, %d lost: %d lots of the %d that were promised", name, lost, r.StepsDone(), steps)
			}
			if c.Validation.Set != nil {
				if _, err := r.Validate(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if a, err := r.Spent("rdp"); err != nil || a.Epsilon > c.Budget.StopAtEpsilon || a.Epsilon < 0.8*c.Budget.StopAtEpsilon {
				t.Errorf("%s, %d lost: ε = %v of %v (%v)", name, lost, a.Epsilon, c.Budget.StopAtEpsilon, err)
			}
		}
	}
}

func TestAffordableSteps_Refuses(t *testing.T) {
	c := testConfig(t)
	c.Files.CheckpointFolder = filepath.Join(t.TempDir(), "checkpoint")
	trainRun(t, newRun(t, c), nil)
	for want, change := range map[string]func(*Config){
		"ε = 0":   func(c *Config) { c.Budget.StopAtEpsilon = 0 },
		"private": func(c *Config) { c.Budget.StopAtEpsilon, c.Mechanism.NonPrivate = 3, true },
		"schedule of the noise": func(c *Config) {
			c.Budget.StopAtEpsilon, c.Mechanism.NoiseMultiplier, c.Mechanism.NoiseMultiplierAt = 3, 0, func(int) float64 { return 1 }
		},
	} {
		d := c
		change(&d)
		if _, err := d.AffordableSteps(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	c.Budget.StopAtEpsilon = 1e-3
	if _, err := c.AffordableSteps(); !errors.Is(err, ErrBudget) {
		t.Errorf("a budget for nothing: %v", err)
	}
}
