package engine

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/internal/ranks"
)

// A run resumes on another number of ranks, with the bits of a run on one that resumes at the same lot, and
// all ranks may read the files of rank 0.
func TestRanks_ResumeOnOtherNumber(t *testing.T) {
	run := func(sizes ...int) outcome {
		c := checkpointedConfig(t)
		c.Microbatch = 3
		c.Optimization.Optimizer, c.Optimization.Average.Decay = optim.Optimizer{Kind: optim.KindMomentum, Momentum: 0.9}, 0.5
		var last outcome
		for part, n := range sizes {
			c.Steps = 4 + 3*part
			var outcomes [8]outcome
			failed := eachRank(max(n, 1), func(of ranks.Communicator) error {
				c := c
				if n > 0 {
					c.Ranks = of
				}
				open := Resume
				if part == 0 {
					open = New
				}
				r, err := open(c)
				if err != nil {
					return err
				}
				outcomes[of.Rank()] = trainToOutcome(t, r)
				return r.Close()
			})
			if err := errors.Join(failed...); err != nil {
				t.Fatal(err)
			}
			last = outcomes[0]
		}
		return last
	}
	want := run(0, 0, 0)
	for _, sizes := range [][]int{{1, 3, 2}, {4, 0, 3}, {0, 2, 0}} {
		got := run(sizes...)
		if !slices.Equal(got.weights, want.weights) {
			t.Errorf("%v ranks: other weights", sizes)
		}
		if !reflect.DeepEqual(got.lots, want.lots) {
			t.Errorf("%v ranks: the ledger has\n%v\nwant\n%v", sizes, got.lots, want.lots)
		}
	}
}

// Resume compares what the ranks read.
func TestRanks_ResumeRefusesOtherCheckpoint(t *testing.T) {
	c := checkpointedConfig(t)
	r := newRun(t, c)
	trainRun(t, r, nil)
	r.Close()
	failed := eachRank(2, func(of ranks.Communicator) error {
		c := c
		c.Ranks = of
		if of.Rank() == 1 {
			c.Files.CheckpointFolder = t.TempDir()
		}
		_, err := Resume(c)
		return err
	})
	for rank, err := range failed {
		if want := "rank 1: it has other checkpoints than rank 0"; err == nil || err.Error() != want {
			t.Errorf("rank %d gets %v, want %s", rank, err, want)
		}
	}
}
