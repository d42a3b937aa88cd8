package training

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
)

// BlankRun is a run whose examples are blank. It is timed and thrown away, and spends nothing: its ledger is in a
// temporary directory. The time that it takes does not depend on the data.
type BlankRun struct {
	*engine.Run
	interruption *interruption
	dir          string
}

// interruption ends a lot that takes too long: when isDue, the blank set has an error in place of examples.
type interruption struct{ isDue func() bool }

var errInterrupted = errors.New("a lot that is only timed was interrupted")

// NewBlankRun makes a run of blank examples with the settings of c.
func NewBlankRun(c engine.Config) (*BlankRun, error) {
	r := &BlankRun{interruption: &interruption{}}
	var err error
	if r.dir, err = os.MkdirTemp("", "dptrain-preview-"); err != nil {
		return nil, err
	}
	c.Train, c.Files = newBlankSet(c.Train, r.interruption), engine.Files{}
	c.Mechanism.Choose, c.Budget.FilterOrder = nil, 0 // lots of blank examples, which are timed, spend nothing
	c.Projection = engine.Projection{}                // the network behind zero directions takes the same time
	// Noise alone would move the weights far away, where a product with numbers near 0 takes several times as long.
	c.Optimization.Schedule, c.Optimization.LearningRateAt = optim.Schedule{}, func(int) float64 { return 0 }
	if !c.Mechanism.NonPrivate {
		c.Files.Ledger = filepath.Join(r.dir, rundir.LedgerFile)
	}
	if r.Run, err = engine.New(c); err != nil {
		os.RemoveAll(r.dir)
		return nil, exitcode.AsUsage(err)
	}
	return r, nil
}

// Close removes the ledger. Its errors do not matter.
func (r *BlankRun) Close() {
	r.Run.Close()
	os.RemoveAll(r.dir)
}

// wholeLots is how many times as long as asked EstimateDuration waits for the end of a lot.
const wholeLots = 5

// EstimateDuration runs lots for some time, and returns the estimated seconds of all steps. The first lot takes longer
// than the others: it counts only if no other lot ended. Of a lot that takes several times as long as the time, only
// the first records are computed. Those of the first microbatch do not count, because it takes longer, and neither does
// the lot's release, which is short in comparison.
func (r *BlankRun) EstimateDuration(steps int, timed time.Duration) (float64, error) {
	once, err := r.EstimateFrozenOutputs()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var ends []time.Time
	started := time.Now()
	var counted time.Time // since when the records of the first lot count
	before := 0           // its records that do not count
	r.interruption.isDue = func() bool {
		loaded := r.LoadedRecords()
		if before == 0 {
			counted, before = time.Now(), loaded
		}
		return time.Since(started) > wholeLots*timed && loaded > before
	}
	err = r.Train(ctx, func(*engine.Progress) error {
		ends = append(ends, time.Now())
		if time.Since(started) > timed {
			cancel()
		}
		return nil
	})
	var perLot time.Duration
	switch n := len(ends); {
	case err != nil && ctx.Err() == nil && !errors.Is(err, errInterrupted):
		return 0, err
	case n >= 2:
		perLot = ends[n-1].Sub(ends[0]) / time.Duration(n-1)
	case n == 1:
		perLot = ends[0].Sub(started)
	default:
		perLot = time.Duration(float64(time.Since(counted)) / float64(r.LoadedRecords()-before) * r.Describe().ExpectedLot)
	}
	return once.Seconds() + perLot.Seconds()*float64(steps), nil
}

// blankSet is a data set of the same shape whose numbers and labels are all zero.
type blankSet struct {
	data.Set
	*interruption
}

func (b blankSet) Read(dst [][]float32, _ []int) error {
	if b.isDue != nil && b.isDue() {
		return errInterrupted
	}
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

// newBlankSet returns a set of the same shape as s whose numbers and labels are all zero, with
// weights of zero where s has weights.
func newBlankSet(s data.Set, i *interruption) data.Set {
	var blank data.Set = blankSet{s, i}
	if users := data.Users(s); users != nil {
		blank = blankUserSet{blankSet{s, i}, users}
	}
	if data.Weights(s) != nil {
		blank, _ = data.WithWeights(blank, make([]float64, s.Len()))
	}
	if states := data.CellStates(s); states != nil {
		blank, _ = data.WithCellStates(blank, make([]data.CellState, len(states)))
	}
	return blank
}
