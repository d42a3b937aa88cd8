//go:build gpu

package compile

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/dptrain/dptrain/cuda/internal/driver"
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
	chosen, err := c.choices.Choose(key, names, func() ([]float64, error) { return c.timeOptions(options) })
	if c.fail(err); err == nil {
		options[chosen].queue()
	}
}

// timeOptions returns the seconds that each option takes, infinity for one that needs more scratch
// memory than the instruction has.
func (c *compiler) timeOptions(options []option) ([]float64, error) {
	seconds := make([]float64, len(options))
	var timed [][]step
	var indices []int
	for i, o := range options {
		steps, used := c.try(o)
		if c.err != nil {
			return nil, c.err
		}
		seconds[i] = math.Inf(1)
		if used <= c.scratch.sizes[c.scratch.next-1] {
			timed, indices = append(timed, steps), append(indices, i)
		}
	}
	c.overwritten = true
	times, err := timer(c.device, timed)
	if err != nil {
		return nil, err
	}
	for k, i := range indices {
		seconds[i] = times[k]
	}
	return seconds, nil
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

// timer measures the seconds that each of several options takes.
var timer = timeInTurn

const (
	warmUp       = 100 * time.Millisecond // of work, in which the clocks of an idle GPU rise
	coldAfter    = time.Second            // without a measurement
	timingRounds = 3
)

// lastTiming is the end of the process's last measurement.
var lastTiming struct {
	sync.Mutex
	time.Time
}

// timeInTurn runs each option's steps as a graph, as a program does.
func timeInTurn(d *driver.Device, options [][]step) ([]float64, error) {
	lastTiming.Lock()
	defer lastTiming.Unlock()
	var runs []func() (float64, error)
	for _, steps := range options {
		g, err := newTimedGraph(d, steps)
		if err != nil {
			return nil, err
		}
		defer g.graph.Close()
		runs = append(runs, func() (float64, error) { return g.run(d) })
	}
	defer func() { lastTiming.Time = time.Now() }()
	return fastestRuns(runs, time.Since(lastTiming.Time) > coldAfter)
}

// fastestRuns returns the seconds of the fastest of some runs of each option. The options run in
// turn, so that a change of the clocks affects all of them. A cold GPU works first.
func fastestRuns(runs []func() (float64, error), cold bool) ([]float64, error) {
	fastest := slices.Repeat([]float64{math.Inf(1)}, len(runs))
	round := func() error {
		for i, run := range runs {
			took, err := run()
			if err != nil {
				return err
			}
			fastest[i] = min(fastest[i], took)
		}
		return nil
	}
	for start := time.Now(); cold && time.Since(start) < warmUp; {
		if err := round(); err != nil {
			return nil, err
		}
	}
	for i := range fastest {
		fastest[i] = math.Inf(1)
	}
	for range timingRounds {
		if err := round(); err != nil {
			return nil, err
		}
	}
	return fastest, nil
}

// timedGraph is steps captured a number of times.
type timedGraph struct {
	graph   *driver.Graph
	repeats int
}

// newTimedGraph captures steps, ten times if they are short, and runs them, which loads the kernels.
func newTimedGraph(d *driver.Device, steps []step) (*timedGraph, error) {
	const short = 500 * time.Microsecond
	for repeats := 1; ; repeats = 10 {
		graph, err := d.Capture(func() error {
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
			return nil, err
		}
		g := &timedGraph{graph, repeats}
		var seconds float64
		for range 2 { // the first run loads the kernels
			if seconds, err = g.run(d); err != nil {
				graph.Close()
				return nil, err
			}
		}
		if repeats > 1 || seconds > short.Seconds() {
			return g, nil
		}
		if err := graph.Close(); err != nil {
			return nil, err
		}
	}
}

// run returns the seconds that the steps take once.
func (g *timedGraph) run(d *driver.Device) (float64, error) {
	start := time.Now()
	if err := d.LaunchGraph(g.graph); err != nil {
		return 0, err
	}
	err := d.Synchronize()
	return time.Since(start).Seconds() / float64(g.repeats), err
}
