//go:build gpu

package cuda

import (
	"fmt"
	"math"
	"time"

	"github.com/dptrain/dptrain/cuda/driver"
)

// tile is the tile of results that a block of a kernel computes.
type tile struct {
	name          string
	rows, columns int
	threads       uint32
}

func ceil(a, b int) int { return (a + b - 1) / b }

func (t tile) count(rows, columns int) int { return ceil(rows, t.rows) * ceil(columns, t.columns) }

// tileSchedule is how a product is divided among blocks.
type tileSchedule struct {
	tile     tile
	separate bool // every slice has blocks of its own
}

func (s tileSchedule) String() string {
	if s.separate {
		return s.tile.name + " by slices"
	}
	return s.tile.name
}

// slicesFit reports whether the slices' results may have memory of their own: they take no
// more memory than the operands. A weight for which they would take more has enough blocks
// without.
func slicesFit(rows, columns, depth, count int) bool {
	return rows*columns*count <= max(concurrentScratch/4, depth*(rows+columns))
}

// schedules lists the ways to compute count slices of a product of this size. tiles are in
// the order of preference on a full GPU, the largest first. unmeasured is the way that is
// used where nothing is measured: the first with two blocks for each multiprocessor, slices
// together if possible, otherwise that with the most blocks. The choice does not change the
// bits of the result.
func schedules(c *compiler, tiles []tile, rows, columns, depth, count int) (list []tileSchedule, unmeasured int) {
	apart := count > 1 && fitsGridDepth(count) && slicesFit(rows, columns, depth, count)
	most := 0 // blocks
	for _, separate := range []bool{false, true} {
		if separate && !apart {
			break
		}
		for _, t := range tiles {
			blocks := t.count(rows, columns)
			if separate {
				blocks *= count
			}
			if most < 2*c.device.Multiprocessors() && blocks > most {
				unmeasured, most = len(list), blocks
			}
			list = append(list, tileSchedule{t, separate})
		}
	}
	return list, unmeasured
}

// option is a way to compute a part of an instruction: it queues steps.
type option struct {
	name  string
	queue func()
}

// launchSchedules queues a product with the fastest of its schedules. kernel and arguments
// identify the product: what its time depends on.
func launchSchedules(c *compiler, list []tileSchedule, unmeasured int, kernel string, arguments any, launch func(tileSchedule)) {
	var options []option
	for _, s := range list {
		options = append(options, option{s.String(), func() { launch(s) }})
	}
	c.choose(fmt.Sprintf("%s %+v", kernel, arguments), options, unmeasured)
}

// forceOption, if a test sets it, returns the index of the option to use, or -1.
var forceOption func(names []string) int

// choose queues the fastest of some options, which all compute the same; without
// measurements, the one with the index unmeasured.
//
// While the compiler measures scratch memory it reserves the most that any option needs, of
// those that need more than the unmeasured one at most concurrentScratch: a measurement
// never makes a microbatch smaller. In its second pass it times the options with this
// memory, on the program's buffers, unless the fastest is known.
func (c *compiler) choose(key string, options []option, unmeasured int) {
	names := make([]string, len(options))
	for i, o := range options {
		names[i] = o.name
	}
	chosen := -1
	switch {
	case len(options) == 1:
		chosen = 0
	case forceOption != nil:
		chosen = forceOption(names)
	case c.choices != nil:
		chosen = c.choices.Find(key, names)
	}
	if chosen < 0 && c.choices == nil {
		chosen = unmeasured
	}
	if chosen >= 0 {
		options[chosen].queue()
		return
	}
	if c.scratch.measuring {
		most := 0
		for i, o := range options {
			if _, used := c.try(o); i == unmeasured || used <= concurrentScratch {
				most = max(most, used)
			}
		}
		c.scratch.used = most
		return
	}
	chosen, err := c.choices.Choose(key, names, func(i int) (float64, error) {
		steps, used := c.try(options[i])
		if c.err != nil {
			return 0, c.err
		}
		if used > c.scratch.sizes[c.scratch.next-1] {
			return math.Inf(1), nil
		}
		c.overwritten = true
		return timer(c.device, steps)
	})
	if c.fail(err); err == nil {
		options[chosen].queue()
	}
}

// try returns the steps that an option queues, and the scratch memory in use with them. It
// queues nothing.
func (c *compiler) try(o option) (steps []step, used int) {
	queued, access, before := c.steps, *c.access, c.scratch.used
	c.steps = &steps
	o.queue()
	used = c.scratch.used
	c.steps, *c.access, c.scratch.used = queued, access, before
	return steps, used
}

// timer measures the seconds that steps take, one after the other.
var timer = timeSteps

// timeSteps runs steps as a graph, as a program does: once to load the kernels, then three
// times. The fastest counts. A graph of short steps contains them ten times.
func timeSteps(d *driver.Device, steps []step) (float64, error) {
	const short = 500 * time.Microsecond
	for repeats := 1; ; repeats = 10 {
		g, err := d.Capture(func() error {
			for range repeats {
				for _, s := range steps {
					if err := s.queue(); err != nil {
						return fmt.Errorf("%s: %w", s.name, err)
					}
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		shortest := time.Duration(1<<63 - 1)
		for run := range 4 {
			start := time.Now()
			if err := d.LaunchGraph(g); err != nil {
				return 0, err
			}
			if err := d.Synchronize(); err != nil {
				return 0, err
			}
			if run > 0 {
				shortest = min(shortest, time.Since(start))
			}
		}
		if err := g.Close(); err != nil {
			return 0, err
		}
		if repeats > 1 || shortest > short {
			return shortest.Seconds() / float64(repeats), nil
		}
	}
}
