package engine

import (
	"errors"

	"github.com/dptrain/dptrain/engine/internal/account"
	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/internal/setting"
)

var (
	// ErrBudget is wrapped by an error where Budget.StopAtEpsilon does not allow a single lot, or
	// where more was spent before.
	ErrBudget = account.ErrBudget
	// ErrCheckpoint is wrapped by an error where a checkpoint cannot be written.
	ErrCheckpoint = state.ErrCheckpoint
	// ErrDamaged is wrapped by an error where a checkpoint or its ledger differs from what was
	// written.
	ErrDamaged = state.ErrDamaged
	// ErrStop ends a run where the observer of [Run.Train] returns it: Train returns nil. The decision
	// may depend on everything that the run released. The cost is then [Run.PlannedEpsilon].
	ErrStop = errors.New("the observer ends the run")
)

// SettingError refuses a setting. Its message names settings as the fields of a [Config], or as the keys
// of a schema.
type SettingError = setting.Error
