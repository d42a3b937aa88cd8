package settings

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
)

// projectionShare is the share of ε that the directions may cost alone, if their noise is
// not given. Costs add approximately by their squares, so composed with the lots they take
// a sixteenth of the budget.
const projectionShare = 0.25

// resolveProjection checks --project against the features.
func (s *Spec) resolveProjection() error {
	f := s.Flags
	if !f.given["project"] {
		if f.given["project-noise"] {
			return exitcode.Usagef("--project-noise %v needs --project: without it no directions are released", f.ProjectionNoise)
		}
		return nil
	}
	width := 0
	for _, c := range s.Task.Train.Columns() {
		if c.Kind == data.Feature {
			width = c.Size()
		}
	}
	switch {
	case width == 0:
		return exitcode.Usagef("--project %d: the features are indices, and only numeric features have principal directions; drop the flag", f.Projection)
	case f.Projection < 1 || f.Projection > width:
		return exitcode.Usagef("--project %d: give a number from 1 to %d, the number of features of an example", f.Projection, width)
	case f.given["project-noise"] && (!(f.ProjectionNoise > 0) || math.IsInf(f.ProjectionNoise, 0)):
		return exitcode.Usagef("--project-noise %v: give a finite standard deviation above 0; a record's matrix has norm 1", f.ProjectionNoise)
	}
	s.Directions = make([]float32, f.Projection*width) // until the run has released them
	s.Config.Projection = engine.Projection{Directions: f.Projection, Network: s.Network.Build}
	return nil
}

// calibrateProjection sets the noise on the second moments for a budget; 0 stands for the
// cost of the lots.
func (s *Spec) calibrateProjection(epsilon float64) (err error) {
	f, c := s.Flags, &s.Config
	if c.Projection.Directions == 0 {
		return nil
	}
	if !f.given["project-noise"] {
		if f.ProjectionNoise, err = s.noiseAlone(projectionShare, epsilon, c.PublicRecordCount()); err != nil {
			return fmt.Errorf("--project: %w; give --project-noise", err)
		}
		f.given["project-noise"] = true
	}
	c.Projection.Noise = f.ProjectionNoise
	return nil
}

// AdoptProjection makes the network that a run has trained, with the directions that it has
// released, the network of the specification.
func (s *Spec) AdoptProjection(run *engine.Run) {
	if directions := run.Directions(); directions != nil {
		s.Directions, s.Config.Network = directions, run.Network()
	}
}
