//go:build gpu

package cuda

import (
	"cmp"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/plan"
)

// alloc takes memory that Close gives back.
func (m *Executable) alloc(bytes int) (driver.Pointer, error) {
	p, err := m.device.Alloc(max(bytes, 4))
	if err == nil {
		m.owned = append(m.owned, p)
	}
	return p, err
}

// maxElements of a buffer leave room below 2^31 for where a kernel stands when it finds
// that it is past the end: a tile or a stride further on.
const maxElements = 1<<31 - 1<<24

// guardBuffers has temporary buffers, and what instructions scratch on, each in memory of its own
// on the emulated device, where the ends of that are guarded.
var guardBuffers = true

func (m *Executable) guarded() bool { return guardBuffers && m.device.Emulated() }

// allocate lays out every buffer; temporaries share the arena.
func (m *Executable) allocate(o plan.Optimizer, average bool) (err error) {
	p := m.program
	var arena driver.Pointer
	if !m.guarded() {
		if arena, err = m.alloc(4 * p.Arena); err != nil {
			return err
		}
	}
	m.memory = make([]driver.Pointer, len(p.Buffers))
	for i, b := range p.Buffers {
		if b.Size() > maxElements {
			return fmt.Errorf("%w: buffer %s has %d elements, and kernels count to %d", driver.ErrOutOfMemory, b.Name, b.Size(), maxElements)
		}
		switch {
		case b.Base != i:
			continue
		case b.Role == plan.RoleTemporary && arena != 0:
			m.memory[i] = arena + driver.Pointer(4*b.Offset)
		default:
			if m.memory[i], err = m.alloc(4 * b.Size()); err != nil {
				return err
			}
		}
		switch {
		case b.Role == plan.RoleClippedSum:
			err = m.device.Zero(m.memory[i], 4*b.Size())
		case b.Role == plan.RoleConstant:
			err = m.upload(m.memory[i], bytesOf(b.Value))
		}
		if err != nil {
			return err
		}
	}
	for i, b := range p.Buffers {
		m.memory[i] = m.memory[b.Base]
	}
	return m.allocateState(o, average)
}

// upload copies what need not be page-locked and waits.
func (m *Executable) upload(to driver.Pointer, from []byte) error {
	if err := m.device.CopyIn(to, from); err != nil {
		return err
	}
	err := m.device.Synchronize()
	runtime.KeepAlive(from) // the copy may still read it where the driver takes it as it lies
	return err
}

// freeAfter frees the memory that was taken after the first so many pieces.
func (m *Executable) freeAfter(after int) (err error) {
	for _, p := range m.owned[after:] {
		err = cmp.Or(err, m.device.Free(p))
	}
	m.owned = m.owned[:after]
	return err
}

func bytesOf[T float32 | int32](x []T) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
}

func floats(b []byte) []float32 { return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4) }
