package settings

import (
	"math/rand/v2"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/engine/data"
)

// SplitData divides a data set as --split says. A new run draws the seed of the division, which its
// settings contain; it decides the places of the public examples and nothing about the noise.
func (s *Flags) SplitData(task *data.Task) error {
	if !s.given["split"] {
		if s.given["split-seed"] {
			return exitcode.Usagef("--split-seed %d needs --split: without it nothing is divided", s.SplitSeed)
		}
		return nil
	}
	switch {
	case s.Test != "":
		return exitcode.Usagef("--split and --test exclude each other: both give the public test data; drop one of them")
	case strings.HasPrefix(s.Record, "user:"):
		return exitcode.Usagef("--split and --record %s exclude each other: a public row would reveal a user whose other rows are trained on; give rows of other users with --test", s.Record)
	case s.Population > 0:
		return exitcode.Usagef("--split and --population exclude each other: the number of public rows would reveal the number of rows; give public rows with --test")
	}
	if !s.given["split-seed"] {
		const exactInJSON = 1 << 53
		s.SplitSeed, s.given["split-seed"] = rand.Uint64N(exactInJSON), true
	}
	return exitcode.AsUsage(task.SplitTest(s.Split, s.SplitSeed))
}
