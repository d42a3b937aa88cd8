package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/engine/internal/team"
	"github.com/dptrain/dptrain/internal/setting"
	"github.com/dptrain/dptrain/noise"
)

// A run on several ranks (package team). Each rank computes the records of its shard, and then the integers of
// all ranks are added. Each adds the noise to its part of the elements and updates its part of the weights and of
// the optimizer's state, and they gather the weights (package lot). Bounds and statistics are computed by all.
// Rank 0 has the files.

// checkRanks refuses what several ranks cannot compute with the bits of one.
func (c *Config) checkRanks() error {
	if c.Ranks == nil {
		return nil
	}
	m := &c.Mechanism
	switch {
	case c.RankTimeout < 0:
		return setting.Errorf("RankTimeout", "%v: give a time above 0, or 0 for the default", setting.With("RankTimeout", c.RankTimeout))
	case m.NonPrivate:
		return setting.Errorf("Mechanism.NonPrivate", "a run without privacy (%v) adds floating-point numbers, so its result would depend on the number of ranks: train it in one process", setting.Named("Mechanism.NonPrivate"))
	case m.Arithmetic == FloatArithmetic:
		return setting.Errorf("Mechanism.Arithmetic", "%v on several ranks: sums of floating-point numbers depend on the number of ranks; use %v",
			setting.With("Mechanism.Arithmetic", string(FloatArithmetic)), setting.With("Mechanism.Arithmetic", string(ExactArithmetic)))
	case c.Device.Name == "gorgonia":
		return setting.Errorf("Device.Name", "device %s is not available on several ranks: use %v", c.Device.Name, setting.With("Device.Name", "cpu"))
	}
	return nil
}

// rankAndCount returns the number of this process and how many there are.
func (c *Config) rankAndCount() (rank, count int) {
	if c.Ranks == nil {
		return 0, 1
	}
	return c.Ranks.Rank(), c.Ranks.Size()
}

// followsRankZero reports whether another rank has the files.
func (c *Config) followsRankZero() bool { return c.Ranks != nil && c.Ranks.Rank() > 0 }

// newSource returns the source of a run: of its seed, or of a key from the operating system.
func (c *Config) newSource() (*noise.Source, error) {
	if c.Seed != nil {
		return noise.NewSeeded(*c.Seed), nil
	}
	return team.NewSource(c.Ranks)
}

// StartupTimeout returns how long ranks with this RankTimeout wait for one another before the first lot.
func (c Config) StartupTimeout() time.Duration { return team.StartupTimeout(c.RankTimeout) }

// buildOnRanks makes a run without its files, and checks that all ranks have the same.
func buildOnRanks(c Config) (*Run, error) {
	if c.Ranks == nil {
		return build(c)
	}
	of := team.New(c.Ranks, c.RankTimeout)
	r, err := newUncompiled(c)
	if err := of.Agree(err); err != nil {
		return nil, err
	}
	if err := r.index.ShareBlank(c.Ranks); err != nil {
		return nil, err
	}
	r.team = of
	err = r.compile()
	if agreed := of.Agree(err); agreed != nil {
		if err == nil {
			r.network.Executable.Close()
		}
		return nil, agreed
	}
	if err := r.compareRanks(); err != nil {
		r.network.Executable.Close()
		return nil, err
	}
	return r, nil
}

// compareRanks returns an error if a rank has other settings, data or starting weights than rank 0. The error
// does not state a number of records, which may be private.
func (r *Run) compareRanks() error {
	c := &r.config
	settings, err := r.fingerprint()
	if err := r.team.Agree(err); err != nil {
		return err
	}
	device, _, _ := strings.Cut(c.Device.Name, ":") // without its number
	seed := "none"
	if c.Seed != nil {
		seed = fmt.Sprint(*c.Seed)
	}
	for _, e := range []struct {
		name  string
		value any
	}{
		{"number of lots", c.Steps}, {"microbatch", r.network.Program.Records}, {"delta", c.Budget.Delta}, {"device", device},
		{"precision", c.Device.Precision}, {"budget", c.Budget.StopAtEpsilon}, {"accountant", c.Budget.Accountant}, {"seed", seed},
	} {
		settings = append(settings, state.Entry{Name: e.name, Value: fmt.Sprint(e.value)})
	}
	if err := r.team.CompareSettings(settings); err != nil {
		return err
	}
	return r.compareWeights()
}

// compareWeights returns an error if a rank has other weights than rank 0.
func (r *Run) compareWeights() error {
	if err := r.team.Agree(r.network.Executable.SyncState()); err != nil {
		return err
	}
	return r.team.CompareWeights(append(r.network.Executable.State().Weights, r.network.Running.All())...)
}

// RankDurations returns how long each rank has computed its records since this command began, without waiting for
// the others; nil in one process.
func (r *Run) RankDurations() []time.Duration { return r.lot.RankDurations() }

// endsOfRuns are the reasons to end that all ranks recognize.
var endsOfRuns = []error{ErrStop, context.Canceled, ErrBudget}

// agreeOnEnd returns nil where err is nil on all ranks. Otherwise it returns on all ranks why one does not go on: one
// of endsOfRuns, or the error of a rank.
func (r *Run) agreeOnEnd(err error) error {
	_, err = r.team.Vote(err, false, endsOfRuns...)
	return err
}

// agreeToContinue returns nil where all ranks go on with the next lot. Otherwise it returns on all ranks why
// one does not. Where a checkpoint is due, all ranks save it.
func (r *Run) agreeToContinue(err error) error {
	due := false
	if r.checkpoints != nil && err == nil && r.step > r.firstStep { // rank 0
		due, err = r.checkpoints.IsDue(r.step)
	}
	due, err = r.team.Vote(err, due, endsOfRuns...)
	if err != nil {
		return err
	}
	if due {
		err := r.lot.GatherState()
		if err == nil && r.checkpoints != nil {
			err = r.checkpoints.Begin(r.step)
		}
		if err := r.team.Agree(err); err != nil {
			return err
		}
	}
	if r.step > r.firstStep && (team.ComparesAfter(r.step) || r.step == r.config.Steps) {
		return r.compareWeights()
	}
	return nil
}
