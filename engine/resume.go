package engine

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/sample"
)

// Resume goes on with a run from the newest whole checkpoint in c.Checkpoint,
// with c as it was given to New. Steps, the budget, delta, the accountant, the
// device, its threads and the microbatch may be others; where anything else that is
// public differs, the error says what.
//
// All is one history: what the ledger says was spent stays spent, lots that the
// checkpoint does not know of included. They are run again as new lots: noise and
// records are drawn with a fresh key, so that nothing is drawn twice, and ε is
// that of all of them. A pass of shuffled lots that was broken off counts as
// whole, and the next one begins.
//
// A run that was stopped before its first checkpoint is begun anew. One whose budget was
// used up trains no further, and has the checkpoint's weights.
func Resume(c Config) (*Run, error) {
	if c.Files.CheckpointFolder == "" {
		return nil, fmt.Errorf("nothing to resume: set Config.Files.CheckpointFolder to the folder of a run's checkpoints")
	}
	saved, err := newest(c.Files.CheckpointFolder)
	if err != nil {
		return nil, err
	}
	if saved == nil {
		if err := clearLedger(&c); err != nil {
			return nil, err
		}
		return New(c)
	}
	defer saved.file.Close()
	var spent ledger.History
	if !c.Mechanism.NonPrivate {
		if spent, err = history(c.Files.Ledger, saved.Head); err != nil {
			return nil, err
		}
	}
	if c.Seed != nil {
		seed := *c.Seed + 0x9E3779B97F4A7C15*turn(&c, saved)
		c.Seed = &seed
	}
	c.Projection.released = saved.projection
	r, err := build(c)
	if err != nil {
		return nil, err
	}
	if err := r.goOn(saved, spent); err != nil {
		r.machine.Close()
		if r.ledger != nil {
			err = errors.Join(err, r.ledger.Close())
		}
		return nil, err
	}
	return r, nil
}

// AffordableSteps is how many lots, those done included, the run saved in c.Checkpoint can have
// when it is resumed with c and nothing but the budget c.Budget.StopAtEpsilon ends it: c.Steps is
// not read. What the ledger holds beyond the checkpoint, and a projection and a validation
// that are still to come, leave room for fewer. Where there is none for one lot more, the
// error unwraps to [ErrBudget].
func AffordableSteps(c Config) (int, error) {
	switch {
	case c.Mechanism.NoiseMultiplierAt != nil:
		return 0, fmt.Errorf("noise for each lot is no noise of lots to come: extend such a run by Steps")
	case c.Mechanism.NonPrivate || !(c.Budget.StopAtEpsilon > 0):
		return 0, fmt.Errorf("a budget of ε = %v for more lots: a private run and a number above 0 are needed", c.Budget.StopAtEpsilon)
	}
	saved, err := newest(c.Files.CheckpointFolder)
	if err != nil {
		return 0, err
	}
	var spent ledger.History
	c.Steps = 1
	if saved != nil {
		defer saved.file.Close()
		if spent, err = history(c.Files.Ledger, saved.Head); err != nil {
			return 0, err
		}
		c.Steps += saved.Step
		c.Projection.released = saved.projection
	}
	r, err := build(c)
	if err != nil {
		return 0, err
	}
	defer r.machine.Close()
	if saved != nil {
		r.step, r.began = saved.Step, saved.Step
	} else {
		spent.Header = r.header()
	}
	spent, _ = r.withBrokenPass(spent)
	if r.meter, err = r.newMeter(r.config.withRest(spent)); err != nil {
		return 0, err
	}
	if r.meter.allowed == 0 {
		return 0, r.noRoom(r.meter)
	}
	return r.step + r.meter.allowed, nil
}

// turn is another number, from 1 on, each time that a run is gone on with: each time has left
// a line in the ledger before it drew anything, whichever checkpoint it went on from. Where
// nothing is private, and there is no ledger, the same may be drawn twice.
func turn(c *Config, saved *checkpoint) uint64 {
	if c.Mechanism.NonPrivate {
		return uint64(saved.Step)
	}
	report, _ := ledger.Verify(c.Files.Ledger) // which was read, but for a last line that may be cut short
	return uint64(report.Runs)
}

// newest is the newest whole checkpoint in a folder, its file open; nil where there
// never was one.
func newest(folder string) (*checkpoint, error) {
	names, err := checkpoints(folder)
	if err != nil {
		return nil, err
	}
	var first error
	for _, name := range names {
		c, err := openCheckpoint(name)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, ErrDamaged) {
			return nil, fmt.Errorf("checkpoint: %w", err)
		}
		if first == nil {
			first = fmt.Errorf("checkpoint %s: %w", name, err)
		}
	}
	return nil, first
}

// openCheckpoint reads a file, which stays open for what is left in it.
func openCheckpoint(name string) (c *checkpoint, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if c, err = readCheckpoint(file, info.Size()); err != nil {
		return nil, err
	}
	c.file = file
	return c, nil
}

// clearLedger removes the ledger of a run that was stopped before it had spent
// anything.
func clearLedger(c *Config) error {
	if c.Mechanism.NonPrivate {
		return nil
	}
	err := ledger.Discard(c.Files.Ledger)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case errors.Is(err, ledger.ErrNotEmpty):
		return fmt.Errorf("checkpoint: %s holds none, but the ledger %s says that lots were spent: restore the folder, or begin another run", c.Files.CheckpointFolder, c.Files.Ledger)
	}
	return err
}

// history reads the ledger, which must hold the line that was its last when the
// checkpoint was taken.
func history(path, head string) (ledger.History, error) {
	holds, err := ledger.ContainsHead(path, head)
	if err != nil {
		return ledger.History{}, fmt.Errorf("%w: ledger: %w: without it nobody knows what was spent; restore it", ErrDamaged, err)
	}
	if !holds {
		return ledger.History{}, fmt.Errorf("%w: the ledger %s lacks lines that it had when the checkpoint was taken, so it says less than was spent; restore it", ErrDamaged, path)
	}
	return ledger.Read(path)
}

// goOn makes a built run the continuation of a checkpoint. The ledger is opened
// last: nothing is written before all has been compared.
func (r *Run) goOn(saved *checkpoint, spent ledger.History) (err error) {
	c := &r.config
	if r.keeper, err = r.keepIn(c.Files.CheckpointFolder); err != nil {
		return err
	}
	if d := differences(saved.Run, r.keeper.last.Run); d != "" {
		return fmt.Errorf("this is not the run that was saved in %s: %s; give what it was, or begin another run", c.Files.CheckpointFolder, d)
	}
	if err := sameShape(saved, &r.keeper.last); err != nil {
		return err
	}
	if saved.Step > c.Steps {
		return fmt.Errorf("%d steps: the run has done %d already; give as many, or more", c.Steps, saved.Step)
	}
	r.step, r.began = saved.Step, saved.Step
	if err := saved.load(r.machine.State()); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := r.machine.LoadState(); err != nil {
		return err
	}
	if c.Mechanism.NonPrivate {
		return nil
	}
	if err := r.mechanism.clipper.Restore(saved.Bounds); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := r.prepare(min(r.step, c.Steps-1)); err != nil {
		return err
	}
	return r.reopen(spent)
}

func sameShape(a, b *checkpoint) error {
	if !slices.Equal(a.Sizes, b.Sizes) || a.Slots != b.Slots || a.Average != b.Average || a.Projection != b.Projection {
		return fmt.Errorf("%w: the checkpoint does not hold the vectors that it describes", ErrDamaged)
	}
	return nil
}

// reopen goes on with the ledger.
func (r *Run) reopen(spent ledger.History) (err error) {
	read := spent.LotCount()
	spent, broken := r.withBrokenPass(spent)
	if r.meter, err = r.newMeter(r.config.withRest(spent)); err != nil {
		return err
	}
	if r.ledger, err = ledger.Open(r.config.Files.Ledger); err != nil {
		return err
	}
	if r.ledger.History().LotCount() != read {
		return fmt.Errorf("the ledger %s was written to by another run while this one began: resume again", r.config.Files.Ledger)
	}
	if !r.source.Secure() {
		if err := r.ledger.MarkInsecure(); err != nil {
			return err
		}
	}
	for ; broken > 0; broken-- {
		r.ledger.LimitReservations(broken)
		if err := r.ledger.Spend(r.mechanism.lot); err != nil {
			return err
		}
	}
	return nil
}

// withBrokenPass adds to a history the lots that are left of a shuffled pass that
// was broken off, and says how many they are.
func (r *Run) withBrokenPass(h ledger.History) (ledger.History, int) {
	broken := r.brokenPass(h)
	if broken > 0 {
		h.Lots = append(slices.Clip(h.Lots), ledger.RepeatedLot{Lot: r.lotOf(0), Count: broken})
	}
	return h, broken
}

// brokenPass is how many lots are left of a shuffled pass that was broken off.
// They are stated and not run: their records are dealt again, in the next pass.
func (r *Run) brokenPass(h ledger.History) int {
	e := r.Event()
	if e.Policy != sample.PolicyShuffle {
		return 0
	}
	dealt := 0
	for _, s := range h.Lots {
		if s.Lot.Sampling.Policy == ledger.Shuffle {
			dealt += s.Count
		}
	}
	pass := (e.Records + e.LotSize - 1) / e.LotSize
	return (pass - dealt%pass) % pass
}

// withdraw takes back a ledger under which nothing was spent, and the folder of checkpoints
// that nothing was written into.
func (r *Run) withdraw() {
	os.Remove(r.config.Files.CheckpointFolder) // only if it is empty
	if r.ledger != nil {
		r.ledger.Close()
		ledger.Discard(r.config.Files.Ledger)
	}
}
