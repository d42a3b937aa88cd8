package cpu

import (
	"fmt"
	"runtime/debug"

	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/host/memory"
)

// availableMemory returns the memory that is left for an executable of the given
// size. If twice that size does not fit, it first returns unused memory to the system.
//
// The result may depend on private data that were read: see memory.AtStart.
func availableMemory(bytes int) memory.Headroom {
	room := memory.Available()
	if !room.Fits(2 * int64(bytes)) {
		debug.FreeOSMemory()
		room = memory.Available()
	}
	return room
}

// checkMemory returns plan.ErrOutOfMemory if bytes do not fit. Linux would grant the memory all
// the same and kill the process when it touches the pages.
func checkMemory(bytes int, room memory.Headroom) error {
	if !room.Fits(int64(bytes)) {
		return fmt.Errorf("%w: the program needs %.1f GB, but %s has room for %.1f GB", plan.ErrOutOfMemory, float64(bytes)/1e9, room.LimitedBy, float64(room.Bytes)/1e9)
	}
	return nil
}

// size returns how many bytes [Executable.allocate] allocates: it allocates no shared values that are in memory.
func size(p *plan.Program, o plan.Optimizer, average bool) int {
	copies := o.Slots()
	if average {
		copies++
	}
	bytes := p.Bytes()
	for _, b := range p.Buffers {
		switch {
		case b.Half && b.Shared.IsHalfInMemory():
			bytes -= 2 * b.Size()
		case b.Shared != nil && !b.Half && b.Shared.IsInMemory():
			bytes -= 4 * b.Size()
		}
	}
	for _, v := range p.Parameters {
		if v.ClippedSum >= 0 {
			bytes += 4 * copies * v.Shape.TotalSize()
			if p.Exact { // a lattice.Sum has 6 bytes an element
				bytes -= 2 * v.Shape.TotalSize()
			}
		}
	}
	return bytes
}
