package training

import (
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/ranks"
)

// Start creates the run of a specification, or restores the run to resume. Its directory
// must be locked.
func Start(spec *settings.Spec) (*engine.Run, error) {
	flags := spec.Flags
	if flags.Resume != "" {
		run, err := engine.Resume(spec.Config)
		if err != nil {
			return nil, err
		}
		rundir.RemoveUnfinished(flags.Out)
		return run, flags.WriteConfig(&spec.Config)
	}
	rundir.RemoveUnfinished(flags.Out)
	// The settings come first: without them a run could not be resumed.
	err := ranks.Agree(spec.Config.Ranks, flags.WriteConfig(&spec.Config))
	var run *engine.Run
	if err == nil {
		run, err = engine.New(spec.Config)
	}
	if err != nil {
		os.Remove(filepath.Join(flags.Out, rundir.ConfigFile))
	}
	return run, err
}

// Follow is Start on a rank that has no files: its run does what rank 0 does.
func Follow(spec *settings.Spec) (*engine.Run, error) {
	if spec.Flags.Resume != "" {
		return engine.Resume(spec.Config)
	}
	if err := ranks.Agree(spec.Config.Ranks, nil); err != nil {
		return nil, err
	}
	return engine.New(spec.Config)
}
