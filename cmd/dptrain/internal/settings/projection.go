package settings

import (
	"fmt"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/engine"
)

// projectionShare is the share of ε that the directions may cost alone, if their noise is
// not given. Costs add approximately by their squares, so composed with the lots they take
// a sixteenth of the budget.
const projectionShare = 0.25

// resolveProjection sets the projection.
func (s *Spec) resolveProjection() error {
	f := s.Flags
	if !f.given["project"] {
		if f.given["project-noise"] {
			return exitcode.Usagef("--project-noise %v needs --project: without it no directions are released", f.ProjectionNoise)
		}
		return nil
	}
	p := engine.Projection{Directions: f.Projection, Network: s.Network.Build}
	features, err := p.Features(s.Task.Train)
	if err != nil {
		return err
	}
	s.Directions = make([]float32, f.Projection*features) // until the run has released them
	s.Config.Projection = p
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
