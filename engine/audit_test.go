package engine

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/sample"
)

// auditCase is a pair of data sets that differ in one record, whose gradient is the worst case:
// as long as the bound and orthogonal to all others.
type auditCase struct {
	change func(*Config)
	with   data.Set
	// without is the neighbour. score is the log-likelihood ratio of a lot with and without the
	// record, up to terms that are common to both.
	without data.Set
	score   func(lot observedLot) float64
	isLoose bool // the attack is weaker than the stated bound
	lots    int  // 0 means 4,000
}

// observedLot is what an observer gets of a lot.
type observedLot struct {
	sum       []float64 // noised sum of all clipped gradients
	statistic float64   // noised sum
	count     float64   // noised count behind an adaptive bound
}

// plantedRecords returns n records with gradients along the second axis, followed by more
// records along the first.
func plantedRecords(n, more int, along float32) *data.Table {
	return newColumnTable(n+more, func(i, k, j int) float32 {
		switch {
		case i >= n && j == 0:
			return along
		case i < n && j == 1:
			return 0.5
		}
		return 0
	}, 2)
}

// withOwners returns a set with owners of its rows.
func withOwners(s *data.Table, users ...int32) data.Set {
	x := [][]float32{make([]float32, 2*s.Len())}
	rows := make([]int, s.Len())
	for i := range rows {
		rows[i] = i
	}
	err := s.Read(x, rows)
	o, err2 := data.NewTable(s.Columns(), x, users)
	if err := errors.Join(err, err2); err != nil {
		panic(err)
	}
	return o
}

// mixtureScore returns the log-likelihood ratio of y, of deviation sigma, which a record changes
// by one with probability q.
func mixtureScore(q, y, sigma float64) float64 {
	return math.Log(1 - q + q*math.Exp((y-0.5)/(sigma*sigma)))
}

var auditCases = map[string]auditCase{
	"poisson": {
		change: func(c *Config) { c.Sampling.Rate = 0.5 },
		with:   plantedRecords(6, 1, 40), without: plantedRecords(6, 0, 0),
		score: func(l observedLot) float64 { return mixtureScore(0.5, l.sum[0], 1) },
	},
	"at the bound": {
		change: func(c *Config) { c.Sampling.Rate = 1 },
		with:   plantedRecords(6, 1, 1), without: plantedRecords(6, 0, 0),
		score: func(l observedLot) float64 { return mixtureScore(1, l.sum[0], 1) },
	},
	"fixed": {
		change: func(c *Config) {
			c.Sampling.Lot, c.Sampling.Policy, c.Mechanism.NoiseMultiplier = 3, sample.PolicyFixed, 2
		},
		with: plantedRecords(5, 1, 40), without: plantedRecords(5, 1, -40),
		score: func(l observedLot) float64 { return l.sum[0] }, isLoose: true,
	},
	"fixed, all": {
		change: func(c *Config) {
			c.Sampling.Lot, c.Sampling.Policy, c.Mechanism.NoiseMultiplier = 6, sample.PolicyFixed, 2
		},
		with: plantedRecords(5, 1, 40), without: plantedRecords(5, 1, -40),
		score: func(l observedLot) float64 { return l.sum[0] },
	},
	"shuffled, all": {
		change: func(c *Config) { c.Sampling.Lot, c.Sampling.Policy = 6, sample.PolicyShuffle },
		with:   plantedRecords(5, 1, 40), without: plantedRecords(5, 1, 0),
		score: func(l observedLot) float64 { return mixtureScore(1, l.sum[0], 1) },
	},
	"user": {
		change: func(c *Config) { c.Sampling.Rate, c.Records, c.Microbatch = 0.5, Records{Users: true, Examples: 2}, 2 },
		with:   withOwners(plantedRecords(5, 4, 40), 1, 1, 5, 7, 5, 6, 6, 6, 6), without: withOwners(plantedRecords(5, 0, 0), 1, 1, 5, 7, 5),
		score: func(l observedLot) float64 { return mixtureScore(0.5, l.sum[0], 1) },
	},
	"microbatch": {
		change: func(c *Config) { c.Sampling.Rate, c.Records, c.Microbatch = 0.5, Records{Examples: 3}, 2 },
		with:   plantedRecords(6, 3, 40), without: plantedRecords(6, 0, 0),
		score: func(l observedLot) float64 { return mixtureScore(0.5, l.sum[0], 1) },
	},
	"scaled": {
		change: func(c *Config) {
			c.Sampling.Rate = 0.5
			c.Mechanism.Clipping = []clip.Group{{Name: "all", Parameters: []string{"w0"}, Scales: []float64{0.1}, Bound: clip.Constant(3)}}
		},
		with: plantedRecords(6, 1, 40), without: plantedRecords(6, 0, 0),
		score: func(l observedLot) float64 { return mixtureScore(0.5, l.sum[0]/0.3, 1) },
	},
	"statistic": {
		change: func(c *Config) {
			c.Sampling.Lot, c.Sampling.Policy, c.Mechanism.NoiseMultiplier = 6, sample.PolicyFixed, 3
			c.Statistics = []Statistic{{Name: "first", Size: 1, Sensitivity: 2, Noise: 6,
				Of: func(dst []float64, record []load.Example) { dst[0] = float64(record[0].Columns[0][0]) }}}
		},
		with: plantedRecords(5, 1, 40), without: plantedRecords(5, 1, -40),
		score: func(l observedLot) float64 { return l.sum[0] + l.statistic/2 },
	},
	"local steps": {
		change: func(c *Config) {
			c.Sampling.Rate, c.Records = 0.5, Records{Users: true, Examples: 2}
			c.LocalTraining = LocalTraining{Steps: 2, Rate: 1, Batch: 1}
		},
		with: withOwners(plantedRecords(5, 4, 40), 1, 1, 5, 7, 5, 6, 6, 6, 6), without: withOwners(plantedRecords(5, 0, 0), 1, 1, 5, 7, 5),
		score: func(l observedLot) float64 { return mixtureScore(0.5, l.sum[0], 1) },
	},
	"local steps and statistic": {
		change: func(c *Config) {
			c.Sampling.Rate, c.Mechanism.NoiseMultiplier = 1, 1.5
			c.Records, c.LocalTraining = Records{Users: true, Examples: 1}, LocalTraining{Steps: 1, Rate: 1}
			c.Statistics = []Statistic{{Name: "first", Size: 1, Sensitivity: 2, Noise: 3,
				Of: func(dst []float64, record []load.Example) { dst[0] = float64(record[0].Columns[0][0]) }}}
		},
		with: withOwners(plantedRecords(5, 1, 40), 0, 1, 2, 3, 4, 5), without: withOwners(plantedRecords(5, 0, 0), 0, 1, 2, 3, 4),
		score: func(l observedLot) float64 { return l.sum[0] + l.statistic/2 - 1 },
	},
	"adaptive count": {
		change: func(c *Config) {
			c.Sampling.Rate, c.Mechanism.NoiseMultiplier = 1, 0.9
			c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 1, Target: 0.5, Rate: 1e-4, Noise: 0.5}, nil)
		},
		with: plantedRecords(6, 1, 40), without: plantedRecords(6, 0, 0),
		// The count reveals nearly all that 0.9 allows; the others count ½ each.
		score: func(l observedLot) float64 { return mixtureScore(1, 2*(3-l.count), 1) },
		lots:  240, // each writes a line of the ledger
	},
}

// An attacker who knows all records but one decides whether a lot contained it. The advantage
// over guessing, estimated from two runs of many lots, must not exceed the δ at ε = 0 that the
// ledger gives for one lot; so that the audit has power, it must hardly be below it. Hoeffding's
// bound for the difference of two shares of n is e^(-n·x²): a false alarm has probability below
// 1e-8 per comparison, 2e-7 in total.
func TestRun_PassesMembershipAudit(t *testing.T) {
	for name, a := range auditCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lots := cmp.Or(a.lots, 4000)
			room := math.Sqrt(math.Log(1e8) / float64(lots))
			var positives [2]float64
			var h ledger.History
			for k, set := range []data.Set{a.with, a.without} {
				c := testConfig(t)
				useUnitSteps(&c)
				c.Network, c.Train, c.Sampling.Lot, c.Mechanism.NoiseMultiplier, c.Steps, c.Seed = linearNetwork(2), set, 0, 1, lots, nil
				a.change(&c)
				for _, s := range observeLots(t, c) {
					if a.score(s) > 0 {
						positives[k] += 1 / float64(lots)
					}
				}
				h = readLedger(t, c.Files.Ledger)
			}
			h.Lots = slices.Clone(h.Lots[:1])
			h.Lots[0].Count = 1
			claim, err := accountant.Delta(h, 0, "pld")
			if err != nil {
				t.Fatal(err)
			}
			most := claim.Delta
			if d := positives[0] - positives[1]; !(d <= most+room) || !a.isLoose && !(d >= most-room) {
				t.Errorf("positive with probabilities %.3f and %.3f, difference %.3f, stated bound %.3f", positives[0], positives[1], d, most)
			}
		})
	}
}

// observeLots trains a run and returns what an observer gets.
func observeLots(t *testing.T, c Config) (all []observedLot) {
	r := newRun(t, c)
	r.account.Meter.Counted = math.MaxInt // skip the computation of ε
	before := flatWeights(t, r)
	bounds := r.lot.Mechanism.Clipper.State(nil)
	trainRun(t, r, func(p *Progress) error {
		var s observedLot
		after, expected := flatWeights(t, r), r.Event().ExpectedLot()
		for i := range after {
			s.sum = append(s.sum, float64(before[i]-after[i])*expected)
		}
		before = after
		for _, released := range p.Released {
			s.statistic = released.Mean[0] * expected
		}
		next := r.lot.Mechanism.Clipper.State(nil)
		if bounds[0] > 0 {
			s.count = -math.Log(next[0]/bounds[0]) / 1e-4 * expected
		}
		bounds = next
		all = append(all, s)
		return nil
	})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}
