//go:build gpu

package compile

import (
	"fmt"
	"math"
	"math/big"

	"github.com/dptrain/dptrain/cuda/internal/batch"
	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/cuda/internal/override"
)

// step queues work on the device, or, where host is set, computes on the host after the
// device has finished.
type step struct {
	name   string
	access *access // of the queued work
	queue  func() error
	host   func() error
	part   *part        // nil unless queue launches a batch of this part
	chain  *chainLaunch // nil unless queue launches it
}

// part is a launch that can share a batch with others.
type part struct {
	kernel      driver.Kernel
	name        string
	grid, block dim
	arguments   driver.Args

	budgets driver.Pointer // if not 0: an admission, whose grid is the records; parts that take from these join
}

// kind identifies the parts with which a part can share a batch.
func (p *part) kind() batch.Kind {
	if p == nil {
		return batch.Kind{}
	}
	k := batch.Kind{Name: fmt.Sprint(p.name, p.block), Capacity: batch.Capacity(ceil(len(p.arguments), 8) * 8)}
	if p.budgets != 0 {
		k.Name, k.InSequence = fmt.Sprint(k.Name, p.grid, p.budgets), true
		k.Capacity = min(k.Capacity, admitParts)
	}
	return k
}

// launchBatch launches parts of one kind.
func launchBatch(d *driver.Device, parts []*part) error {
	var table batch.Table
	for _, p := range parts {
		table.Add(p.grid, p.arguments)
	}
	first, blocks := parts[0], table.Blocks()
	if first.budgets != 0 {
		records := blocks / len(parts)
		blocks = ceil(records, min(admitRecords, ceil(records, d.Multiprocessors())))
	}
	if blocks > math.MaxInt32 {
		return fmt.Errorf("kernel %s cannot be launched with %d blocks", first.name, blocks)
	}
	return d.Launch(first.kernel, dim{uint32(blocks), 1, 1}, first.block, table.Argument())
}

// joinBatches orders steps and joins parts into batches. All memory has been allocated before,
// so the batches take none.
func joinBatches(d *driver.Device, steps []step) (joined []step) {
	kinds := make([]batch.Kind, len(steps))
	for i, s := range steps {
		kinds[i] = s.part.kind()
	}
	for _, group := range batch.Join(dependencies(steps), kinds) {
		first := steps[group[0]]
		if len(group) > 1 {
			first.access = &access{}
			var parts []*part
			for _, i := range group {
				parts = append(parts, steps[i].part)
				first.access.reads = append(first.access.reads, steps[i].access.reads...)
				first.access.writes = append(first.access.writes, steps[i].access.writes...)
			}
			first.name = fmt.Sprintf("%d × %s", len(parts), parts[0].name)
			first.queue = func() error { return launchBatch(d, parts) }
		}
		joined = append(joined, first)
	}
	return joined
}

// copyInStep is a step that copies to the device's memory.
func copyInStep(to span, queue func() error) step {
	return step{name: "copy in", access: &access{writes: []span{to}}, queue: queue}
}

// span is a range of the device's memory.
type span struct{ from, to driver.Pointer }

func bytesAt(p driver.Pointer, n int) span { return span{p, p + driver.Pointer(n)} }

func floatsAt(p driver.Pointer, n int) span { return bytesAt(p, 4*n) }

// access is the memory that a step reads and writes.
type access struct{ reads, writes []span }

// conflicts reports whether the order of two steps can change their results: both access
// some memory that at least one of them writes.
func (a *access) conflicts(b *access) bool {
	return overlap(a.writes, b.writes) || overlap(a.writes, b.reads) || overlap(a.reads, b.writes)
}

func overlap(a, b []span) bool {
	for _, x := range a {
		for _, y := range b {
			if x.from < y.to && y.from < x.to {
				return true
			}
		}
	}
	return false
}

// dependencies lists, for each step, the earlier steps that it depends on: those that it
// conflicts with, without those that another dependency already depends on. Small kernels
// that do not conflict then run at the same time, for example norms during the backward
// pass, and sums of different parameters; one after the other they would leave most of a
// GPU idle. About half of a training step's kernels depend on each other (19 of
// mnist-cnn's 38; TestDependencies_AnyOrderGivesSameBits logs other networks). Predicted for an H100, at 2 µs for a
// small kernel and the start of the next: such a step takes 40 µs instead of 80.
//
// A step without conflicts depends on the first step, a copy: no driver documents the
// effect of an empty set of dependencies.
func dependencies(steps []step) [][]int {
	direct := make([][]int, len(steps))
	before := make([]big.Int, len(steps)) // bit j of before[i]: step i runs after step j
	for i, s := range steps {
		for j := i - 1; j >= 0; j-- {
			if before[i].Bit(j) == 0 && s.access.conflicts(steps[j].access) {
				direct[i] = append(direct[i], j)
				before[i].Or(&before[i], &before[j]).SetBit(&before[i], j, 1)
			}
		}
		if i > 0 && len(direct[i]) == 0 {
			direct[i] = []int{0}
			before[i].SetBit(&before[i], 0, 1)
		}
	}
	return direct
}

// capture captures steps, joined to fewer launches, as a graph with their dependencies. If an override
// requests it, the steps are not joined, or each depends on the step before it.
func capture(d *driver.Device, steps []step) (*driver.Graph, error) {
	how, err := override.GraphCapture()
	if err != nil {
		return nil, err
	}
	if how != override.Separate {
		steps = joinBatches(d, joinChains(d, steps))
	}
	if how == override.Chain {
		return d.Capture(func() error {
			for _, s := range steps {
				if err := s.queue(); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
			}
			return nil
		})
	}
	direct := dependencies(steps)
	return d.Capture(func() error {
		ends := make([]driver.CapturePoint, len(steps))
		for i, s := range steps {
			var after []driver.CapturePoint
			for _, j := range direct[i] {
				after = append(after, ends[j])
			}
			var err error
			if i > 0 {
				err = d.SetCaptureDependencies(after...)
			}
			if err == nil {
				err = s.queue()
			}
			if err == nil {
				ends[i], err = d.CapturePoint()
			}
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
		return nil
	})
}
