//go:build gpu

package cuda

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/cuda/driver"
)

// stepSequence is a run of a program's part: graphs of launches, and between them what
// only the host can do.
type stepSequence struct {
	steps  []step
	graphs []segment
}

// step queues work on the device, or, where host is set, waits for the device
// and computes on the host.
type step struct {
	name   string
	access *access // of the work
	queue  func() error
	host   func() error
}

// copyInStep is a step that copies to the device's memory.
func copyInStep(to span, queue func() error) step {
	return step{name: "copy in", access: &access{writes: []span{to}}, queue: queue}
}

// segment is a stretch of steps recorded as a graph, or one step of the host.
type segment struct {
	graph *driver.Graph
	name  string
	host  func() error
}

// record turns the steps, with others before and after, into graphs.
func (c *stepSequence) record(d *driver.Device, before, after []step) error {
	steps := slices.Concat(before, c.steps, after)
	for at := 0; at < len(steps); {
		if steps[at].host != nil {
			c.graphs = append(c.graphs, segment{name: steps[at].name, host: steps[at].host})
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
		c.graphs = append(c.graphs, segment{graph: g})
		at = to
	}
	return nil
}

// runsOnHost reports whether a step is the host's.
func (c *stepSequence) runsOnHost() bool {
	return slices.ContainsFunc(c.steps, func(s step) bool { return s.host != nil })
}

// run replays the graphs. It returns while the device still works.
func (c *stepSequence) run(d *driver.Device) error {
	for i := range c.graphs {
		g := &c.graphs[i]
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

func (c *stepSequence) close() {
	for _, g := range c.graphs {
		if g.graph != nil {
			g.graph.Close()
		}
	}
	c.graphs = nil
}
