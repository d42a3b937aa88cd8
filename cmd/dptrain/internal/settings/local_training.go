package settings

import (
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/engine"
)

// resolveLocalTraining checks the flags of local steps.
func (s *Flags) resolveLocalTraining() error {
	if s.LocalSteps == 0 && !s.OnCommandLine("local-steps") {
		for _, name := range []string{"local-lr", "local-batch"} {
			if s.OnCommandLine(name) {
				return exitcode.Usagef("--%s needs --local-steps K: give the number of steps of a user, or drop --%[1]s", name)
			}
		}
		return nil
	}
	return nil
}

// localTraining returns the steps of each user.
func (s *Flags) localTraining() engine.LocalTraining {
	if s.LocalSteps == 0 {
		return engine.LocalTraining{}
	}
	return engine.LocalTraining{Steps: s.LocalSteps, Rate: s.LocalRate, Batch: s.LocalBatch}
}
