package settings

import (
	"math"
	"strings"

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
	switch {
	case s.LocalSteps < 1:
		return exitcode.Usagef("--local-steps %d: give at least 1, or drop the flag, with which users contribute gradients", s.LocalSteps)
	case !strings.HasPrefix(s.Record, "user:"):
		return exitcode.Usagef("--local-steps %d needs --record user:COLUMN, and --record is %s: users train on their own examples; change --record, or drop --local-steps", s.LocalSteps, s.Record)
	case !(s.LocalRate > 0) || math.IsInf(s.LocalRate, 1):
		return exitcode.Usagef("--local-lr %v: give a finite learning rate above 0", s.LocalRate)
	case s.LocalBatch < 0 || s.LocalBatch == 0 && s.OnCommandLine("local-batch"):
		return exitcode.Usagef("--local-batch %d: give at least 1, or drop the flag for the default", s.LocalBatch)
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
