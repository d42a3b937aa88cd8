package engine

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/sample"
)

// configsWithAllReleases are runs with every kind of release.
func configsWithAllReleases(t *testing.T) map[string]Config {
	all := map[string]Config{}
	for name, change := range map[string]func(c *Config){
		"plain":         func(c *Config) {},
		"rate":          func(c *Config) { c.Sampling.Lot, c.Sampling.Rate = 0, 0.13 },
		"truncated":     func(c *Config) { c.Sampling.Policy, c.Sampling.MaxLot = sample.PolicyTruncated, 15 },
		"constant work": func(c *Config) { c.Sampling.Policy, c.Sampling.ConstantWork = sample.PolicyTruncated, true },
		"fixed":         func(c *Config) { c.Sampling.Policy = sample.PolicyFixed },
		"shuffle":       func(c *Config) { c.Sampling.Policy = sample.PolicyShuffle },
		"groups": func(c *Config) {
			c.Records.Examples = 2
			c.Mechanism.Clipping = clip.PerParameter(parameterNames(t, *c), clip.Constant(3), nil)
		},
		"adaptive": func(c *Config) {
			c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.2, Noise: 9}, nil)
		},
		"statistics": func(c *Config) { c.Statistics = []Statistic{MeanLoss(2, 30), FeatureMeans(0, features, 1, 9)} },
		"statistics in some lots": func(c *Config) {
			third, fifth := MeanLoss(2, 30), FeatureMeans(0, features, 1, 9)
			third.Every, fifth.Every = 3, 5
			c.Statistics = []Statistic{third, fifth, LotSize(7)}
		},
		"shuffle, statistics in some lots": func(c *Config) {
			c.Sampling.Policy, c.Statistics = sample.PolicyShuffle, []Statistic{LotSize(9)}
			c.Statistics[0].Every = 2
		},
		"group with noise of its own": func(c *Config) {
			c.Mechanism.Clipping = clip.PerParameter(parameterNames(t, *c), clip.Constant(3), nil)
			c.Mechanism.GroupNoiseMultipliers = map[string]float64{"fc1.weight": 9, "fc2.bias": 11}
		},
		"validation": func(c *Config) { c.Validation = Validation{Set: mlpExamples(10, 9), Noise: 6} },
	} {
		c := testConfig(t)
		change(&c)
		all[name] = c
	}
	return all
}

func parameterNames(t *testing.T, c Config) (all []string) {
	for _, v := range newRun(t, c).Describe().Parameters {
		all = append(all, v.Name)
	}
	return all
}

// The planned history costs what the final ledger costs, by two accountants.
func TestPlannedHistory_MatchesLedger(t *testing.T) {
	all := configsWithAllReleases(t)
	c := testConfig(t)
	c.Mechanism.NoiseMultiplier, c.Mechanism.NoiseMultiplierAt = 0, func(lot int) float64 { return 1 + float64(lot/2) }
	all["schedule"] = c
	for name, c := range all {
		c.Files.Ledger += name
		seen := c.PlannedHistory()
		r := newRun(t, c)
		trainRun(t, r, nil)
		if c.Validation.Set != nil {
			if _, err := r.Validate(); err != nil {
				t.Fatal(err)
			}
		}
		r.Close()
		spent := readLedger(t, c.Files.Ledger)
		if seen.Header.Unit != spent.Header.Unit || seen.Header.Records != spent.Header.Records || seen.Header.Adjacency != spent.Header.Adjacency || seen.LotCount() != spent.LotCount() {
			t.Errorf("%s: %+v and %d lots, the ledger has %+v and %d", name, seen.Header, seen.LotCount(), spent.Header, spent.LotCount())
		}
		for _, who := range []string{"rdp", "zcdp"} {
			if who == "zcdp" && c.Sampling.Policy == sample.PolicyFixed {
				continue
			}
			a, err := accountant.Epsilon(seen, 1e-5, who)
			b, err2 := accountant.Epsilon(spent, 1e-5, who)
			if errors.Join(err, err2) != nil || !(math.Abs(a.Epsilon-b.Epsilon) <= 1e-6*b.Epsilon) {
				t.Errorf("%s: %s foresees %v, and %v was spent (%v, %v)", name, who, a.Epsilon, b.Epsilon, err, err2)
			}
		}
	}
}

// With the calibrated noise a run costs its budget: at least 99 % of it, and no more.
func TestCalibrateNoise_SpendsBudget(t *testing.T) {
	for name, c := range configsWithAllReleases(t) {
		c.Files.Ledger += name
		c.Mechanism.NoiseMultiplier, c.Budget.Delta, c.Steps = 0, 1e-3, 20
		budget := 8.0
		z, err := c.CalibrateNoise(budget)
		if err != nil {
			t.Fatal(name, err)
		}
		c.Mechanism.NoiseMultiplier = z
		r := newRun(t, c)
		planned, err := r.PlannedEpsilon()
		if err != nil || planned > budget || planned < 0.99*budget {
			t.Errorf("%s: noise %v plans to spend %v of %v (%v)", name, z, planned, budget, err)
		}
		r.Close()
	}
	c := testConfig(t)
	c.Mechanism.NoiseMultiplier, c.Statistics = 0, []Statistic{MeanLoss(2, 0.01)}
	if _, err := c.CalibrateNoise(1); !errors.Is(err, ErrBudget) {
		t.Errorf("a statistic that costs the budget alone: %v", err)
	}
	for want, change := range map[string]func(c *Config){
		"NonPrivate":       func(c *Config) { c.Mechanism.NonPrivate = true },
		"no training data": func(c *Config) { c.Train = nil },
		"owners":           func(c *Config) { c.Records = Records{Users: true, Examples: 2} },
		"rate 0":           func(c *Config) { c.Sampling.Lot = 0 },
	} {
		c := testConfig(t)
		change(&c)
		if _, err := c.CalibrateNoise(1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
