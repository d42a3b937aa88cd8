//go:build gpu

package compile

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/half"
)

// deviceMemory owns the memory of an executable, on the device and page-locked.
type deviceMemory struct {
	device      *driver.Device
	allocations []driver.Pointer
	pinned      [][]byte
}

// alloc allocates memory on the device that close frees.
func (m *deviceMemory) alloc(bytes int) (driver.Pointer, error) {
	p, err := m.device.Alloc(max(bytes, 4))
	if err == nil {
		m.allocations = append(m.allocations, p)
	}
	return p, err
}

// allocPinned allocates cleared page-locked memory that close frees.
func (m *deviceMemory) allocPinned(bytes int) ([]byte, error) {
	b, _, err := m.allocMapped(bytes)
	return b, err
}

// allocMapped allocates cleared page-locked memory that kernels access, too, and that close frees.
func (m *deviceMemory) allocMapped(bytes int) ([]byte, driver.Pointer, error) {
	b, p, err := m.device.AllocMapped(max(bytes, 4))
	if err == nil {
		clear(b)
		m.pinned = append(m.pinned, b)
	}
	return b, p, err
}

// upload copies pageable memory to the device and waits for the copy.
func (m *deviceMemory) upload(to driver.Pointer, from []byte) error {
	if err := m.device.CopyIn(to, from); err != nil {
		return err
	}
	err := m.device.Synchronize()
	runtime.KeepAlive(from) // a driver that accesses pageable memory directly may still read it
	return err
}

// freeAfter frees all device memory but the first n allocations.
func (m *deviceMemory) freeAfter(n int) (err error) {
	for _, p := range m.allocations[n:] {
		err = cmp.Or(err, m.device.Free(p))
	}
	m.allocations = m.allocations[:n]
	return err
}

func (m *deviceMemory) close() (err error) {
	for _, b := range m.pinned {
		err = cmp.Or(err, m.device.FreePinned(b))
	}
	m.pinned = nil
	return cmp.Or(err, m.freeAfter(0))
}

// uploadTable copies rows of fixed size to new memory on the device.
func uploadTable[T any](m *deviceMemory, rows []T) (driver.Pointer, error) {
	content, err := binary.Append(nil, binary.LittleEndian, rows)
	if err != nil {
		return 0, err
	}
	p, err := m.alloc(len(content))
	if err != nil || len(content) == 0 {
		return p, err
	}
	return p, m.upload(p, content)
}

// maxElements is the largest size of a buffer. It leaves room below 2^31 for the index of
// a kernel that reads past the end by a tile or a stride before it stops.
const maxElements = 1<<31 - 1<<24

// guardBuffers gives every temporary buffer and every instruction's scratch memory an
// allocation of its own on the emulated device, which checks the ends of allocations.
var guardBuffers = true

// bufferLayout is the memory of a program's buffers.
type bufferLayout struct {
	program *plan.Program
	address []driver.Pointer // of each buffer
	guarded bool             // every buffer has an allocation of its own
}

// newBufferLayout allocates a program's buffers. Temporary buffers share an arena.
func newBufferLayout(p *plan.Program, m *deviceMemory) (l *bufferLayout, err error) {
	l = &bufferLayout{program: p, address: make([]driver.Pointer, len(p.Buffers)), guarded: guardBuffers && m.device.Emulated()}
	var arena driver.Pointer
	if !l.guarded {
		if arena, err = m.alloc(4 * p.Arena); err != nil {
			return nil, err
		}
	}
	for i, b := range p.Buffers {
		if b.Size() > maxElements {
			return nil, fmt.Errorf("%w: buffer %s has %d elements; a kernel's limit is %d", driver.ErrOutOfMemory, b.Name, b.Size(), maxElements)
		}
		switch {
		case b.Base != i:
			continue
		case b.Role == plan.RoleTemporary && arena != 0:
			l.address[i] = arena + driver.Pointer(4*b.Offset)
		default:
			if l.address[i], err = m.alloc(l.bytes(i)); err != nil {
				return nil, err
			}
		}
	}
	for i, b := range p.Buffers {
		l.address[i] = l.address[b.Base]
	}
	return l, l.initialize(m)
}

// initialize writes what the buffers contain before the first microbatch, except the
// weights: constants, and zeros in the accumulators.
func (l *bufferLayout) initialize(m *deviceMemory) (err error) {
	for i, b := range l.program.Buffers {
		switch {
		case b.Base != i || err != nil:
		case b.Role == plan.RoleClippedSum:
			err = m.device.Zero(l.address[i], l.bytes(i))
		case b.Half:
			err = m.upload(l.address[i], bytesOf(b.Shared.SharedHalf().Bits))
		case b.Role == plan.RoleConstant:
			err = m.upload(l.address[i], bytesOf(b.Content()))
		}
	}
	return err
}

// fillClipFactors sets the clip factors to 1 before measurements: kernels skip records whose
// factor is 0, and would seem faster than they are.
func (l *bufferLayout) fillClipFactors(m *deviceMemory) error {
	for i, b := range l.program.Buffers {
		if b.Role != plan.RoleClipFactors || b.Base != i {
			continue
		}
		if err := m.upload(l.address[i], bytesOf(slices.Repeat([]float32{1}, b.Size()))); err != nil {
			return err
		}
	}
	return nil
}

// isIntegerSum reports whether a buffer is an accumulator of integers of 64 bits.
func (l *bufferLayout) isIntegerSum(id int) bool {
	return l.program.Exact && l.program.Buffers[id].Role == plan.RoleClippedSum
}

// bytes is the size of a buffer.
func (l *bufferLayout) bytes(id int) int {
	b := l.program.Buffers[id]
	switch {
	case l.isIntegerSum(id):
		return 8 * b.Size()
	case l.format(id) != half.None:
		return 2 * b.Size()
	}
	return 4 * b.Size()
}

// format is that of a buffer's numbers of 16 bits, if it has such.
func (l *bufferLayout) format(id int) half.Format {
	if b := l.program.Buffers[l.program.Buffers[id].Base]; b.Half {
		return b.Shared.HalfFormat()
	}
	return half.None
}

// span is the memory of a buffer's base.
func (l *bufferLayout) span(id int) span {
	return bytesAt(l.address[id], l.bytes(l.program.Buffers[id].Base))
}

// pinnedBuffer is page-locked memory of the host for a buffer of the device.
type pinnedBuffer struct {
	device driver.Pointer
	bytes  []byte
	values []float32
}

func (b *pinnedBuffer) span() span { return floatsAt(b.device, len(b.values)) }

func (b *pinnedBuffer) slice() []float32 {
	if b == nil {
		return nil
	}
	return b.values
}

func (b *pinnedBuffer) copyIn(d *driver.Device) error {
	if len(b.values) == 0 {
		return nil
	}
	return d.CopyIn(b.device, b.bytes[:4*len(b.values)])
}

func (b *pinnedBuffer) copyOut(d *driver.Device) error {
	if len(b.values) == 0 {
		return nil
	}
	return d.CopyOut(b.bytes[:4*len(b.values)], b.device)
}

// hostBuffers is the host's view of what it fills and reads in each microbatch. A buffer
// that the program lacks is nil.
type hostBuffers struct {
	inputs            []*pinnedBuffer
	weights, maskSeed *pinnedBuffer
	squared, factors  []*pinnedBuffer // of each parameter
	output, losses    *pinnedBuffer
	observed          []*pinnedBuffer
}

func newHostBuffers(p *plan.Program, m *deviceMemory, l *bufferLayout) (h *hostBuffers, err error) {
	byBase := map[int]*pinnedBuffer{}
	newBuffer := func(id int) *pinnedBuffer {
		if id < 0 || err != nil {
			return nil
		}
		base := p.Buffers[id].Base
		if b := byBase[base]; b != nil {
			return b
		}
		b := &pinnedBuffer{device: l.address[id]}
		byBase[base] = b
		if b.bytes, err = m.allocPinned(4 * p.Buffers[id].Size()); err == nil {
			b.values = floats(b.bytes)[:p.Buffers[id].Size()]
		}
		return b
	}
	h = &hostBuffers{}
	for i, b := range p.Buffers {
		if b.Role == plan.RoleInput && b.Base == i {
			h.inputs = append(h.inputs, newBuffer(i))
		}
	}
	h.weights = newBuffer(p.FindBuffer(plan.RoleExampleWeights, 0))
	h.maskSeed = newBuffer(p.FindBuffer(plan.RoleMaskSeed, 0))
	h.output = newBuffer(p.FindBuffer(plan.RoleOutput, 0))
	h.losses = newBuffer(p.FindBuffer(plan.RoleLosses, 0))
	for id := p.FindBuffer(plan.RoleObserved, 0); id >= 0; id = p.FindBuffer(plan.RoleObserved, len(h.observed)) {
		h.observed = append(h.observed, newBuffer(id))
	}
	for _, v := range p.Parameters {
		h.squared = append(h.squared, newBuffer(v.SquaredNorms))
		h.factors = append(h.factors, newBuffer(v.ClipFactors))
	}
	return h, err
}

// filled are the buffers that the host fills before Forward.
func (h *hostBuffers) filled() []*pinnedBuffer {
	return append(append([]*pinnedBuffer{}, h.inputs...), h.weights, h.maskSeed)
}

// read are the buffers that the host reads after Forward.
func (h *hostBuffers) read() []*pinnedBuffer {
	return append(slices.Concat(h.squared, h.observed), h.output, h.losses)
}

func bytesOf[T float32 | float64 | uint16 | int32 | int64 | releaseParameter | parameterRounding | remainingWeight](x []T) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), len(x)*int(unsafe.Sizeof(x[0])))
}

func floats(b []byte) []float32 { return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4) }
