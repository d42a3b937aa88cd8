//go:build gpu

package cuda

import (
	"fmt"
	"math/big"

	"github.com/dptrain/dptrain/cuda/driver"
)

// span is a stretch of the device's memory.
type span struct{ from, to driver.Pointer }

func bytesAt(p driver.Pointer, n int) span { return span{p, p + driver.Pointer(n)} }

func floatsAt(p driver.Pointer, n int) span { return bytesAt(p, 4*n) }

// access is the memory that work on the device reads and writes.
type access struct{ reads, writes []span }

// conflicts tells whether one order of two pieces of work may give other results than the
// other: both touch some memory, which one of them writes.
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

// dependencies says which earlier steps each one waits for: those that it conflicts with, but not
// those that another of them waits for already. So small kernels that have nothing to do
// with each other run side by side, where one after the other they would leave most of a
// card idle: norms beside the way back, sums beside each other. Half of the kernels of a
// step wait for each other (19 of mnist-cnn's 38, TestAnyOrder tells of others); predicted
// for an H100, at 2 µs for a small kernel and the next one's start, 80 µs of such a step
// become 40. What need not wait waits for the first, a copy: no driver documents what it
// makes of a set of none.
func dependencies(steps []step) [][]int {
	waits := make([][]int, len(steps))
	before := make([]big.Int, len(steps)) // for each, a bit for all that come before it
	for i, s := range steps {
		for j := i - 1; j >= 0; j-- {
			if before[i].Bit(j) == 0 && s.access.conflicts(steps[j].access) {
				waits[i] = append(waits[i], j)
				before[i].Or(&before[i], &before[j]).SetBit(&before[i], j, 1)
			}
		}
		if i > 0 && len(waits[i]) == 0 {
			waits[i] = []int{0}
			before[i].SetBit(&before[i], 0, 1)
		}
	}
	return waits
}

// capture records steps as a graph, each behind those that it waits for.
func capture(d *driver.Device, steps []step) (*driver.Graph, error) {
	waits := dependencies(steps)
	return d.Capture(func() error {
		ends := make([]driver.CapturePoint, len(steps))
		for i, s := range steps {
			var behind []driver.CapturePoint
			for _, j := range waits[i] {
				behind = append(behind, ends[j])
			}
			var err error
			if i > 0 {
				err = d.SetCaptureDependencies(behind...)
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
