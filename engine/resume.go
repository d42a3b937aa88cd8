package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/internal/account"
	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/engine/internal/team"
	"github.com/dptrain/dptrain/internal/setting"
)

// Resume continues a run from the newest undamaged checkpoint in c.Files.CheckpointFolder. c is
// the configuration that New got. Steps, the budget, delta, the accountant, the device, its
// threads and the microbatch may differ; where another public setting differs, the error names it.
//
// The run has one history: what the ledger states as spent stays spent, including lots that the
// checkpoint does not contain. They are run again as new lots: noise and records are drawn with
// a fresh key, so that nothing is drawn twice, and ε is that of all of them. An interrupted pass
// of shuffled lots counts as complete, and the next pass begins.
//
// A run that was stopped before its first checkpoint starts again. A run whose budget was used
// up trains no further and has the checkpoint's weights.
func Resume(c Config) (*Run, error) {
	saved, spent, err := c.readSaved()
	if saved != nil {
		defer saved.Close()
	}
	if err := team.AgreeOnCheckpoint(c.Ranks, saved, err); err != nil {
		return nil, err
	}
	if saved == nil {
		return New(c)
	}
	if c.followsRankZero() {
		c.Files = Files{LedgerWriter: io.Discard}
	}
	r, err := buildOnRanks(c)
	if err != nil {
		return nil, err
	}
	if err := r.team.Agree(r.restore(saved, spent)); err != nil {
		r.network.Executable.Close()
		if r.account != nil {
			err = errors.Join(err, r.account.Ledger.Close())
		}
		return nil, err
	}
	return r, nil
}

// readSaved reads the newest checkpoint, nil where there is none, and the history of the ledger. It adapts
// c to them.
func (c *Config) readSaved() (saved *state.Checkpoint, spent ledger.History, err error) {
	if c.Files.CheckpointFolder == "" {
		return nil, spent, fmt.Errorf("nothing to resume: set Config.Files.CheckpointFolder to the folder of a run's checkpoints")
	}
	if !c.Mechanism.NonPrivate && !c.followsRankZero() {
		if err := c.Budget.checkProject(c.Files.Ledger); err != nil {
			return nil, spent, err
		}
	}
	if saved, err = state.Newest(c.Files.CheckpointFolder); err != nil {
		return nil, spent, err
	}
	if saved == nil {
		if c.followsRankZero() {
			return nil, spent, nil
		}
		return nil, spent, discardLedger(c)
	}
	c.adoptFilterOrder(saved)
	if !c.Mechanism.NonPrivate {
		if spent, err = state.ReadHistory(c.Files.Ledger, saved.Head); err != nil {
			return saved, spent, err
		}
	}
	if c.Seed != nil {
		c.Seed = state.Reseed(*c.Seed, resumptionNumber(c, saved))
	}
	c.Projection.released = saved.Directions
	return saved, spent, nil
}

// AffordableSteps returns how many lots, including those done, the run saved in
// c.Files.CheckpointFolder can have when it is resumed with c and only c.Budget.StopAtEpsilon
// ends it. It does not read c.Steps. Lots that the ledger contains and the checkpoint does not,
// and a projection and a validation that are not released yet, reduce the number. Where the
// budget does not allow one more lot, the error wraps [ErrBudget].
func (c Config) AffordableSteps() (int, error) {
	switch {
	case c.Mechanism.noise().IsScheduled() || c.Mechanism.Choose != nil:
		return 0, setting.Errorf("Steps", "a schedule of the noise was checked for the lots of the run only: extend such a run by %v", setting.Named("Steps"))
	case c.Mechanism.NonPrivate || !(c.Budget.StopAtEpsilon > 0):
		return 0, fmt.Errorf("a budget of ε = %v for more lots: this needs a private run and a budget above 0", c.Budget.StopAtEpsilon)
	}
	saved, err := state.Newest(c.Files.CheckpointFolder)
	if err != nil {
		return 0, err
	}
	var spent ledger.History
	c.Steps = 1
	for _, s := range c.Statistics {
		c.Steps = max(c.Steps, s.Every)
	}
	if saved != nil {
		defer saved.Close()
		if spent, err = state.ReadHistory(c.Files.Ledger, saved.Head); err != nil {
			return 0, err
		}
		c.Steps += saved.Step
		c.Projection.released = saved.Directions
	}
	r, err := build(c)
	if err != nil {
		return 0, err
	}
	defer r.network.Executable.Close()
	done := 0
	if saved != nil {
		done = saved.Step
	} else {
		spent.Header = r.ledgerHeader()
	}
	spent, _ = r.completePass(spent, done)
	spent.Lots = r.lot.Sums.AppendOnce(spent.Lots)
	if r.lot.Mechanism.LotsDiffer() { // at most as many lots as the budget allows without statistics
		bare := r.lot.Mechanism.WithoutStatistics(r.lot.Mechanism.CostOfLot(done))
		equal, err := accountant.NewMeter(spent, bare, r.config.Budget.Delta, c.Budget.Accountant)
		if err != nil {
			return 0, err
		}
		most, err := equal.MaxLots(c.Budget.StopAtEpsilon)
		if err != nil {
			return 0, err
		}
		r.config.Steps = done + most
	}
	meter, err := account.NewMeter(r.config.plan(r.lot.Mechanism, spent, done))
	if err != nil {
		return 0, err
	}
	if meter.Allowed == 0 {
		return 0, meter.BudgetError()
	}
	return done + meter.Allowed, nil
}

// resumptionNumber returns a different number, from 1, for each resumption of a run: each has
// left a line in the ledger before it drew anything, independently of the checkpoint that it
// used. Without privacy there is no ledger, and the same numbers may be drawn twice.
func resumptionNumber(c *Config, saved *state.Checkpoint) uint64 {
	if c.Mechanism.NonPrivate {
		return uint64(saved.Step)
	}
	return state.CountRuns(c.Files.Ledger)
}

// discardLedger removes the ledger of a run that was stopped before it spent anything.
func discardLedger(c *Config) error {
	if c.Mechanism.NonPrivate {
		return nil
	}
	err := ledger.Discard(c.Files.Ledger)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case errors.Is(err, ledger.ErrNotEmpty):
		return fmt.Errorf("checkpoint: %s contains no checkpoint, but the ledger %s contains lots that were spent; restore the folder, or begin another run", c.Files.CheckpointFolder, c.Files.Ledger)
	}
	return err
}

// checkProject refuses to resume a run without the project budget that its ledger names, which would
// then count less than the run spends.
func (b Budget) checkProject(ledgerFile string) error {
	h, err := ledger.Read(ledgerFile)
	if err != nil || h.Budget == "" || h.Budget == b.Project {
		return nil // what is wrong with a ledger is reported where its cost is read
	}
	return setting.Errorf("Budget.Project", "the ledger %s counts in the project budget %s, and the resumed run names %s: continue it with that budget (%v)",
		ledgerFile, h.Budget, cmp.Or(b.Project, "none"), setting.Named("Budget.Project"))
}

// restore makes a built run the continuation of a checkpoint. It opens the ledger last: it
// compares everything before it writes anything.
func (r *Run) restore(saved *state.Checkpoint, spent ledger.History) error {
	c := &r.config
	current, err := r.describeStart()
	if err != nil {
		return err
	}
	if d := current.Run.Differences(saved.Run); d != "" {
		return fmt.Errorf("the settings differ from those of the run saved in %s: %s; give the saved settings, or begin another run", c.Files.CheckpointFolder, d)
	}
	if err := saved.CheckSizes(&current); err != nil {
		return err
	}
	if saved.Step > c.Steps {
		return fmt.Errorf("Config.Steps is %d, and the run has done %d lots; give at least %d", c.Steps, saved.Step, saved.Step)
	}
	r.step, r.firstStep = saved.Step, saved.Step
	if err := saved.Load(r.lot.Optimizer.State(r.network.Executable)); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := r.network.Executable.LoadState(); err != nil {
		return err
	}
	r.network.Running.Restore(saved.RunningStatistics)
	if c.Mechanism.NonPrivate {
		r.checkpoints = r.newCheckpoints(current)
		return nil
	}
	if err := r.lot.Mechanism.Clipper.Restore(saved.Bounds); err != nil {
		return fmt.Errorf("%w: %w", state.ErrDamaged, err)
	}
	if err := r.lot.Mechanism.SetLot(min(r.step, c.Steps-1)); err != nil {
		return err
	}
	if err := r.reopenLedger(spent); err != nil {
		return err
	}
	r.checkpoints = r.newCheckpoints(current)
	return nil
}

// reopenLedger continues the ledger, whose history was read before.
func (r *Run) reopenLedger(spent ledger.History) error {
	read := spent.LotCount()
	spent, missing := r.completePass(spent, r.step)
	spent.Lots = r.lot.Sums.AppendOnce(spent.Lots)
	meter, err := account.NewMeter(r.config.plan(r.lot.Mechanism, spent, r.step))
	if err != nil {
		return err
	}
	follows := r.config.followsRankZero()
	var w *ledger.Writer
	if follows {
		w, err = r.config.Files.createLedger(r.ledgerHeader())
	} else {
		w, err = ledger.Open(r.config.Files.Ledger)
	}
	if err != nil {
		return err
	}
	r.account = &account.Account{Ledger: w, Meter: meter, MaxLostLots: r.config.maxLostLots()}
	if !follows && w.History().LotCount() != read {
		return fmt.Errorf("another run wrote to the ledger %s while this one started; resume again", r.config.Files.Ledger)
	}
	if err := r.account.NameProject(r.config.Budget.Project); err != nil {
		return err
	}
	if !r.source.Secure() {
		if err := w.MarkInsecure(); err != nil {
			return err
		}
	}
	for ; missing > 0; missing-- {
		w.LimitReservations(missing)
		if err := w.Spend(r.lot.Mechanism.Entry); err != nil {
			return err
		}
	}
	return nil
}

// completePass is account.CompletePass for a run of which some lots are done.
func (r *Run) completePass(h ledger.History, done int) (ledger.History, int) {
	return account.CompletePass(h, r.Event(), func() ledger.Lot { return r.lot.Mechanism.CostOfLot(done) })
}

// removeFiles removes a ledger without lots, and the folder of checkpoints if it is empty.
func (r *Run) removeFiles() {
	os.Remove(r.config.Files.CheckpointFolder) // fails unless it is empty
	if r.account != nil {
		r.account.Ledger.Close()
		if r.config.Files.Ledger != "" {
			ledger.Discard(r.config.Files.Ledger)
		}
	}
}
