//go:build gpu

package driver

import "sync/atomic"

// Calls are the calls that send work to a device or wait for it, since it was opened, and those that a
// capture recorded. Copies of a Stream are not counted.
type Calls struct{ Launches, Graphs, Copies, Fills, Waits, EventWaits int64 }

type callCounts struct{ launches, graphs, copies, fills, waits, eventWaits atomic.Int64 }

// Calls returns the calls so far.
func (c *callCounts) Calls() Calls {
	return Calls{c.launches.Load(), c.graphs.Load(), c.copies.Load(), c.fills.Load(), c.waits.Load(), c.eventWaits.Load()}
}
