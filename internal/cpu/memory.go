package cpu

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/dptrain/dptrain/internal/memory"
	"github.com/dptrain/dptrain/internal/plan"
)

// ErrMemory is a lack of memory on the host: a smaller microbatch may fit.
var ErrMemory = errors.New("out of memory")

// roomFor is the room that a machine of so many bytes is made in. Where it may be
// scarce, what is not used any more is given back first.
func roomFor(bytes int) memory.Headroom {
	room := memory.Available()
	if !room.Fits(2 * int64(bytes)) {
		debug.FreeOSMemory()
		room = memory.Available()
	}
	return room
}

// fits refuses what there is no room for, which Linux would grant, and end the process
// for when it is used.
func fits(bytes int, room memory.Headroom) error {
	if !room.Fits(int64(bytes)) {
		return fmt.Errorf("%w: %.1f GB are needed, and %s has room for %.1f GB", ErrMemory, float64(bytes)/1e9, room.LimitedBy, float64(room.Bytes)/1e9)
	}
	return nil
}

// size is how many bytes [Machine.allocate] takes.
func size(p *plan.Program, o plan.Optimizer, average bool) int {
	each := o.Slots()
	if average {
		each++
	}
	bytes := p.Bytes()
	for _, v := range p.Parameters {
		if v.ClippedSum >= 0 {
			bytes += 4 * each * v.Shape.TotalSize()
		}
	}
	return bytes
}
