package perexample

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/dptrain/dptrain/internal/half"
	"github.com/dptrain/dptrain/internal/host/memory"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// InitialValue is a parameter's initial value, drawn when it is needed. A network that is
// only inspected therefore takes no memory for its weights. gorgonia.Let binds it to the
// parameter. Gorgonia's own machines need a tensor instead: make one from Data.
//
// The programs in which the parameter is frozen share one copy of the numbers: see Shared and SharedHalf.
type InitialValue struct {
	shape    tensor.Shape
	draw     func(into []float32)
	stream   func(yield func(part []float32)) // nil: draw
	values   []float32                        // set by Data
	format   half.Format                      // that has all numbers; half.None: they are any float32
	drawHalf func(into []uint16)              // writes their bits

	mutex sync.Mutex
	wide  sharedCopy[float32]
	half  sharedCopy[uint16]
}

// sharedCopy is memory for numbers that its users share, as long as one of them has it.
type sharedCopy[T float32 | uint16] struct {
	slice   memory.WeakSlice[T]
	isDrawn bool // it has the numbers
}

// memory returns the memory of n numbers.
func (c *sharedCopy[T]) memory(n int) []T {
	into := c.slice.Values()
	if into == nil {
		into = memory.Zeros[T](n)
		c.slice, c.isDrawn = memory.WeakTo(into), false
	}
	return into
}

// values returns the numbers; nil if they are not in memory.
func (c *sharedCopy[T]) values() []T {
	if !c.isDrawn {
		return nil
	}
	return c.slice.Values()
}

var _ G.Value = (*InitialValue)(nil)

// NewInitialValue returns an initial value of the given shape. Draw must fill the whole slice,
// with the same numbers in every call.
func NewInitialValue(draw func(into []float32), shape ...int) *InitialValue {
	return &InitialValue{shape: tensor.Shape(shape), draw: draw}
}

// Streamed makes Each call a function that passes the numbers in parts, in their order, so that they are not in
// memory at the same time. It returns the value.
func (s *InitialValue) Streamed(stream func(yield func(part []float32))) *InitialValue {
	s.stream = stream
	return s
}

// StoredAs states that all numbers of the value are of a format of 16 bits, so that a program in which the parameter is
// frozen can compute with them as they are stored. The function draw writes their bits. It returns the value.
func (s *InitialValue) StoredAs(format half.Format, draw func(into []uint16)) *InitialValue {
	s.format, s.drawHalf = format, draw
	return s
}

// Draw writes the value to memory of its size.
func (s *InitialValue) Draw(into []float32) {
	if s.values != nil {
		copy(into, s.values)
		return
	}
	s.draw(into)
}

// Each draws the value, and passes its numbers in parts, in their order. The function must not keep a part.
func (s *InitialValue) Each(yield func(part []float32)) {
	switch {
	case s.values != nil:
		yield(s.values)
	case s.stream != nil:
		s.stream(yield)
	default:
		buffer := drawBuffers.Get().(*[]float32)
		defer drawBuffers.Put(buffer)
		*buffer = slices.Grow((*buffer)[:0], s.Size())
		into := (*buffer)[:s.Size()]
		s.draw(into)
		yield(into)
	}
}

// drawBuffers have the numbers of one value after the other, so that many values take the memory of the largest.
var drawBuffers = sync.Pool{New: func() any { return new([]float32) }}

// Data returns the value as a []float32. The first call draws it; later calls return the
// same slice, so a change to it changes the value.
func (s *InitialValue) Data() any {
	if s.values == nil {
		s.values = make([]float32, s.Size())
		s.draw(s.values)
	}
	return s.values
}

// Shared returns the numbers, which nothing may change. All callers get the same slice, as long as one of them
// has it.
func (s *InitialValue) Shared() []float32 {
	into := s.SharedMemory()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.values == nil && !s.wide.isDrawn {
		s.draw(into)
		s.wide.isDrawn = true
	}
	return into
}

// SharedMemory returns the slice that Shared returns, which may not have the numbers before a call of Shared.
func (s *InitialValue) SharedMemory() []float32 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.values != nil {
		return s.values
	}
	return s.wide.memory(s.Size())
}

// IsInMemory reports whether the numbers that Shared returns are in memory.
func (s *InitialValue) IsInMemory() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.values != nil || s.wide.values() != nil
}

// IsHalf reports whether all numbers have a format of 16 bits, so that SharedHalf returns them.
func (s *InitialValue) IsHalf() bool { return s.format != half.None && s.values == nil }

// HalfFormat is the format of the numbers that SharedHalf returns.
func (s *InitialValue) HalfFormat() half.Format { return s.format }

// SharedHalf is Shared for numbers of 16 bits.
func (s *InitialValue) SharedHalf() half.Numbers {
	into := s.SharedHalfMemory()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.half.isDrawn {
		s.drawHalf(into.Bits)
		s.half.isDrawn = true
	}
	return into
}

// SharedHalfMemory is SharedMemory for SharedHalf.
func (s *InitialValue) SharedHalfMemory() half.Numbers {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return half.Numbers{Format: s.format, Bits: s.half.memory(s.Size())}
}

// IsHalfInMemory reports whether the numbers that SharedHalf returns are in memory.
func (s *InitialValue) IsHalfInMemory() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.half.values() != nil
}

// EachShared is Each for the numbers that Shared or SharedHalf has returned, if they are in memory.
func (s *InitialValue) EachShared(yield func(part []float32)) {
	s.mutex.Lock()
	wide, bits := s.wide.values(), s.half.values()
	s.mutex.Unlock()
	switch {
	case s.values != nil:
		yield(s.values)
	case wide != nil:
		yield(wide)
	case bits != nil:
		s.eachHalf(bits, yield)
	default:
		s.Each(yield)
	}
}

// halfPart is how many numbers of 16 bits are widened together.
const halfPart = 1 << 14

func (s *InitialValue) eachHalf(bits []uint16, yield func(part []float32)) {
	buffer := drawBuffers.Get().(*[]float32)
	defer drawBuffers.Put(buffer)
	*buffer = slices.Grow((*buffer)[:0], halfPart)
	for some := range slices.Chunk(bits, halfPart) {
		part := (*buffer)[:len(some)]
		for i, b := range some {
			part[i] = s.format.Value(b)
		}
		yield(part)
	}
}

// equals reports whether two values have the same bits. It keeps no copy of them.
func (s *InitialValue) equals(other *InitialValue) bool {
	if s == other {
		return true
	}
	if s.Size() != other.Size() {
		return false
	}
	a, b := make([]float32, s.Size()), make([]float32, s.Size())
	s.Draw(a)
	other.Draw(b)
	for i, x := range a {
		if math.Float32bits(x) != math.Float32bits(b[i]) {
			return false
		}
	}
	return true
}

// Shape is the parameter's shape.
func (s *InitialValue) Shape() tensor.Shape { return s.shape }

// Size is the number of elements.
func (s *InitialValue) Size() int { return s.shape.TotalSize() }

// Dtype is the type of all parameters.
func (s *InitialValue) Dtype() tensor.Dtype { return tensor.Float32 }

// MemSize is how many bytes the value takes once it is drawn.
func (s *InitialValue) MemSize() uintptr { return uintptr(4 * s.Size()) }

// Uintptr is 0: the value may not be in memory.
func (s *InitialValue) Uintptr() uintptr { return 0 }

// Format writes a description, not the numbers.
func (s *InitialValue) Format(to fmt.State, _ rune) {
	fmt.Fprintf(to, "initial value of shape %v", s.shape)
}
