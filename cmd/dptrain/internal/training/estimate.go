package training

import (
	"context"
	"time"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
)

// blankSet is a data set of the same shape whose numbers and labels are all zero.
type blankSet struct{ data.Set }

func (b blankSet) Read(dst [][]float32, _ []int) error {
	for _, d := range dst {
		clear(d)
	}
	return nil
}

// blankUserSet is a blankSet that keeps the users, which define the records.
type blankUserSet struct {
	blankSet
	users []int32
}

func (b blankUserSet) Users() []int32 { return b.users }

// NewBlankSet returns a set of the same shape as s whose numbers and labels are all zero, with
// weights of zero where s has weights. The time that a run on it takes does not depend on the data.
func NewBlankSet(s data.Set) data.Set {
	var blank data.Set = blankSet{s}
	if users := data.Users(s); users != nil {
		blank = blankUserSet{blankSet{s}, users}
	}
	if data.Weights(s) != nil {
		blank, _ = data.WithWeights(blank, make([]float64, s.Len()))
	}
	if states := data.CellStates(s); states != nil {
		blank, _ = data.WithCellStates(blank, make([]data.CellState, len(states)))
	}
	return blank
}

// EstimateDuration runs lots for some time, at least one, and returns the estimated seconds of all steps.
// The first lot takes longer than the others: it counts only if no other lot ran.
func EstimateDuration(run *engine.Run, steps int, timed time.Duration) (float64, error) {
	once, err := run.EstimateFrozenOutputs()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started, lots := time.Now(), 0
	var first, last time.Time
	err = run.Train(ctx, func(*engine.Progress) error {
		last = time.Now()
		if lots++; lots == 1 {
			first = last
		}
		if last.Sub(started) > timed {
			cancel()
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		return 0, err
	}
	if lots == 1 {
		first, lots = started, 2
	}
	return once.Seconds() + last.Sub(first).Seconds()/float64(lots-1)*float64(steps), nil
}
