//go:build gpu

package compile

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/cuda/internal/driver"
)

// stepSequence is the compiled front or back of a program: graphs, and between them steps
// of the host.
type stepSequence struct {
	steps    []step
	segments []segment
}

// segment is a run of device steps captured as a graph, or one step of the host.
type segment struct {
	graph *driver.Graph
	name  string
	host  func() error
}

// capture captures the steps, with others before and after them, as graphs.
func (s *stepSequence) capture(d *driver.Device, before, after []step) error {
	steps := slices.Concat(before, s.steps, after)
	for at := 0; at < len(steps); {
		if steps[at].host != nil {
			s.segments = append(s.segments, segment{name: steps[at].name, host: steps[at].host})
			at++
			continue
		}
		to := at
		for to < len(steps) && steps[to].host == nil {
			to++
		}
		g, err := capture(d, steps[at:to])
		if err != nil {
			return err
		}
		s.segments = append(s.segments, segment{graph: g})
		at = to
	}
	return nil
}

// runsOnHost reports whether the host computes a step.
func (s *stepSequence) runsOnHost() bool {
	return slices.ContainsFunc(s.steps, func(s step) bool { return s.host != nil })
}

// launch launches the graphs and computes the host's steps. The last graph may still run
// when it returns.
func (s *stepSequence) launch(d *driver.Device) error {
	for i := range s.segments {
		g := &s.segments[i]
		if g.graph != nil {
			if err := d.LaunchGraph(g.graph); err != nil {
				return err
			}
			continue
		}
		if err := d.Synchronize(); err != nil {
			return err
		}
		if err := g.host(); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	return nil
}

func (s *stepSequence) close() {
	for _, g := range s.segments {
		if g.graph != nil {
			g.graph.Close()
		}
	}
	s.segments = nil
}
