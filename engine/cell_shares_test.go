package engine

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/noise"
)

// cellsOf returns a set with states of three cells of each example.
func cellsOf(t *testing.T, s data.Set) (data.Set, []data.CellState) {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 5))
	states := make([]data.CellState, 3*s.Len())
	for i := range states {
		states[i] = data.CellState(r.IntN(3))
	}
	with, err := data.WithCellStates(s, states)
	if err != nil {
		t.Fatal(err)
	}
	return with, states
}

// The released shares are those of the lot's records plus the noise of the ledger, also for users,
// microbatches, held-out records and local steps.
func TestCellShares_MatchReference(t *testing.T) {
	for name, change := range map[string]func(c *Config){
		"example":    func(*Config) {},
		"microbatch": func(c *Config) { c.Records = Records{Examples: 4} },
		"user":       func(c *Config) { c.Records = Records{Users: true, Examples: 3} },
		"local steps": func(c *Config) {
			c.Records = Records{Users: true, Examples: 3}
			c.LocalTraining = LocalTraining{Steps: 2, Rate: 0.1}
			c.Microbatch = 0
		},
		"subset": func(c *Config) {
			var err error
			if c.Train, err = data.Subset(c.Train, []int{50, 3, 17, 29, 31, 8, 9, 2, 44, 12}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := testConfig(t)
			train, _ := cellsOf(t, examplesOfUsers())
			c.Train, c.Sampling.Lot, c.Steps, c.Microbatch = train, 5, 4, 3
			c.Mechanism.Arithmetic = FloatArithmetic
			change(&c)
			states := data.CellStates(c.Train)
			c.Statistics = []Statistic{CellShares(3, 0.5)}
			r := newRun(t, c)
			trainRun(t, r, func(p *Progress) error {
				want := make([]float64, 7)
				for _, record := range drawLot(t, r, p.Lot-1) {
					rows, share := rowsOf(r, record)
					for i, row := range rows {
						for j, state := range states[3*row : 3*row+3] {
							if state != data.CellFits {
								want[2*j+int(state)-1] += float64(share[i])
							}
						}
					}
					want[6]++
				}
				stream := noise.Stream{Purpose: noise.Release, Lot: uint64(p.Lot - 1), Vector: 4 + 1}
				noised, tolerance, err := addReferenceNoise(r, c.Statistics[0], want, stream)
				if err != nil {
					return err
				}
				for i, m := range p.Released[0].Mean {
					if w := noised[i] / r.Event().ExpectedLot(); !(math.Abs(m-w) <= tolerance) {
						t.Errorf("lot %d, number %d: %v, want %v", p.Lot, i, m, w)
					}
				}
				return nil
			})
		})
	}
}

// The vector of a record has at most the stated norm, and a record whose cells all leave the schema
// reaches it.
func TestCellShares_Sensitivity(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for _, cells := range []int{1, 2, 14, 200} {
		s := CellShares(cells, 1)
		most := 0.0
		for trial := range 300 {
			record := make([]load.Example, 1+r.IntN(4))
			for i := range record {
				record[i].Cells = make([]data.CellState, cells)
				for j := range record[i].Cells {
					if record[i].Cells[j] = data.CellState(r.IntN(3)); trial == 0 {
						record[i].Cells[j] = data.CellEmpty
					}
				}
			}
			vector, norm := make([]float64, s.Size), 0.0
			s.Of(vector, record)
			for _, v := range vector {
				norm += v * v
			}
			most = max(most, math.Sqrt(norm))
		}
		if !(most <= s.Sensitivity*(1+1e-12)) || !(most >= s.Sensitivity*(1-1e-12)) {
			t.Errorf("%d cells: a norm of %v, stated %v", cells, most, s.Sensitivity)
		}
	}
}

// A data set that does not know the states of its cells is refused before anything is spent.
func TestCellShares_NeedsStates(t *testing.T) {
	c := testConfig(t)
	c.Statistics = []Statistic{CellShares(3, 1)}
	if _, err := New(c); err == nil {
		t.Error("a set without states was accepted")
	}
}
