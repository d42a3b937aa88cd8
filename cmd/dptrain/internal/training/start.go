// Package training runs a training: it starts or resumes the run of a specification,
// reports its progress, and writes its files.
package training

import (
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/engine"
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
	err := flags.WriteConfig(&spec.Config)
	var run *engine.Run
	if err == nil {
		run, err = engine.New(spec.Config)
	}
	if err != nil {
		os.Remove(filepath.Join(flags.Out, rundir.ConfigFile))
	}
	return run, err
}
