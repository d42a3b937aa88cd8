package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/ranks"
)

// Each rank computes its part of a lot and reads no other record.
func TestRanks_ReadTheirOwnRecords(t *testing.T) {
	c := testConfig(t)
	c.Sampling, c.Microbatch, c.Steps = Sampling{Rate: 1}, 4, 1
	table := c.Train.(*data.Table)
	read := make([]map[int]bool, 3)
	failed := eachRank(3, func(of ranks.Communicator) error {
		c := c
		c.Ranks = of
		recorder := &readRecorder{Table: table}
		c.Train = recorder
		c.Files.Ledger = filepath.Join(t.TempDir(), "ledger.jsonl")
		r, err := New(c)
		if err != nil {
			return err
		}
		defer r.Close()
		recorder.rows = map[int]bool{}
		read[of.Rank()] = recorder.rows
		return r.Train(context.Background(), nil)
	})
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	owner := map[int]int{}
	for rank, rows := range read {
		for row := range rows {
			if other, twice := owner[row]; twice {
				t.Errorf("ranks %d and %d read record %d", other, rank, row)
			}
			owner[row] = rank
		}
		if len(rows) != 20 {
			t.Errorf("rank %d reads %d of 60 records", rank, len(rows))
		}
	}
}

// A record on one rank changes nothing but the integers: what the ranks send and when does not depend on it.
func TestRanks_NeighboursMakeTheSameCalls(t *testing.T) {
	for name, test := range map[string]struct {
		config   func(t *testing.T) Config
		smallest int // number of calls
	}{
		"adaptive bounds and statistics": {func(t *testing.T) Config {
			c := testConfig(t)
			c.Microbatch, c.Sampling, c.Steps = 10, Sampling{Rate: 1}, 3
			c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.2, Noise: 4}, nil)
			c.Statistics = []Statistic{Accuracy(1, 4)}
			return c
		}, 20},
		"projection and chosen noise": {func(t *testing.T) Config {
			c := adaptiveConfig(t)
			c.Microbatch, c.Sampling, c.Steps, c.Mechanism.NoiseMultiplier = 10, Sampling{Rate: 1}, 3, 20
			c.Network, c.Projection = nil, Projection{Directions: 3, Noise: 20, Network: denseOnProjection}
			return c
		}, 40},
		"views": {func(t *testing.T) Config {
			c := testConfig(t)
			c.Microbatch, c.Sampling, c.Augmentation = 10, Sampling{Rate: 1}, Augmentation{3, stirView}
			return c
		}, 20},
		"users with local steps": {func(t *testing.T) Config {
			c := localConfig(t)
			c.Steps, c.Statistics = 3, []Statistic{MeanLoss(2, 3)}
			return c
		}, 20},
	} {
		t.Run(name, func(t *testing.T) {
			want := callsOfTwoRanks(t, test.config(t), -1)
			if len(want[1]) < test.smallest {
				t.Fatalf("only %d calls", len(want[1]))
			}
			rows := test.config(t).Train.Len()
			for _, blanked := range []int{0, 17, rows - 1} { // of both ranks, and the last
				if got := callsOfTwoRanks(t, test.config(t), blanked); !reflect.DeepEqual(got, want) {
					t.Errorf("without record %d the ranks make other calls:\n%v\nwant\n%v", blanked, got, want)
				}
			}
		})
	}
}

// callsOfTwoRanks trains on two ranks without an example, and returns their calls. Its set is a table.
func callsOfTwoRanks(t *testing.T, c Config, blanked int) (all [2][]string) {
	blank := make([]bool, c.Train.Len())
	if blanked >= 0 {
		blank[blanked] = true
	}
	c.Train = blankedSet{c.Train.(*data.Table), blank}
	c.Files.Ledger = filepath.Join(t.TempDir(), "ledger.jsonl")
	failed := eachRank(2, func(of ranks.Communicator) error {
		c := c
		c.Ranks = &rankCallRecorder{of, &all[of.Rank()]}
		r, err := New(c)
		if err != nil {
			return err
		}
		defer r.Close()
		return r.Train(context.Background(), nil)
	})
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	return all
}

// rankCallRecorder notes the calls of a rank, without the values of sums.
type rankCallRecorder struct {
	ranks.Communicator
	calls *[]string
}

func (r *rankCallRecorder) Sum(values []int64) error {
	*r.calls = append(*r.calls, fmt.Sprint("Sum of ", len(values)))
	return r.Communicator.Sum(values)
}

func (r *rankCallRecorder) Sum32(values []int32) error {
	*r.calls = append(*r.calls, fmt.Sprint("Sum32 of ", len(values)))
	return r.Communicator.Sum32(values)
}

func (r *rankCallRecorder) Gather(b []byte, ends []int) error {
	*r.calls = append(*r.calls, fmt.Sprint("Gather of ", ends))
	return r.Communicator.Gather(b, ends)
}

func (r *rankCallRecorder) OnSeveralHosts() bool { return true }

func (r *rankCallRecorder) Exchange(receive, send []byte, ends []int) error {
	*r.calls = append(*r.calls, fmt.Sprint("Exchange of ", ends))
	return r.Communicator.(ranks.Exchanger).Exchange(receive, send, ends)
}

func (r *rankCallRecorder) Broadcast(b []byte) error {
	*r.calls = append(*r.calls, fmt.Sprint("Broadcast of ", len(b)))
	return r.Communicator.Broadcast(b)
}

type readRecorder struct {
	*data.Table
	rows map[int]bool // nil: nothing is recorded
}

func (r *readRecorder) Read(dst [][]float32, rows []int) error {
	for _, row := range rows {
		if r.rows != nil {
			r.rows[row] = true
		}
	}
	return r.Table.Read(dst, rows)
}
