//go:build gpu

package cuda

import (
	"fmt"

	"github.com/dptrain/dptrain/cuda/driver"
)

// code is a run of a program's part: graphs of launches, and between them what
// only the host can do.
type code struct {
	steps  []step
	graphs []segment
}

// step queues work on the device, or, where host is set, waits for the device
// and computes on the host.
type step struct {
	name  string
	queue func() error
	host  func() error
}

// segment is a stretch of steps recorded as a graph, or one step of the host.
type segment struct {
	graph *driver.Graph
	name  string
	host  func() error
}

// record turns the steps into graphs.
func (c *code) record(d *driver.Device) error {
	for at := 0; at < len(c.steps); {
		if c.steps[at].host != nil {
			c.graphs = append(c.graphs, segment{name: c.steps[at].name, host: c.steps[at].host})
			at++
			continue
		}
		to := at
		for to < len(c.steps) && c.steps[to].host == nil {
			to++
		}
		steps := c.steps[at:to]
		g, err := d.Capture(func() error {
			for _, s := range steps {
				if err := s.queue(); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		c.graphs = append(c.graphs, segment{graph: g})
		at = to
	}
	return nil
}

// run replays the graphs. It returns while the device still works.
func (c *code) run(d *driver.Device) error {
	for i := range c.graphs {
		g := &c.graphs[i]
		if g.graph != nil {
			if err := d.Run(g.graph); err != nil {
				return err
			}
			continue
		}
		if err := d.Wait(); err != nil {
			return err
		}
		if err := g.host(); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	return nil
}

func (c *code) close() {
	for _, g := range c.graphs {
		if g.graph != nil {
			g.graph.Close()
		}
	}
	c.graphs = nil
}
