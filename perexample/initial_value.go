package perexample

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/dptrain/dptrain/internal/host/memory"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// InitialValue is a parameter's initial value, drawn when it is needed. A network that is
// only inspected therefore takes no memory for its weights. gorgonia.Let binds it to the
// parameter. Gorgonia's own machines need a tensor instead: make one from Data.
//
// The programs in which the parameter is frozen share one copy of the numbers: see Shared.
type InitialValue struct {
	shape  tensor.Shape
	draw   func(into []float32)
	stream func(yield func(part []float32)) // nil: draw
	values []float32                        // set by Data

	mutex   sync.Mutex
	shared  memory.WeakSlice
	isDrawn bool // shared has the numbers
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
	if s.values == nil && !s.isDrawn {
		s.draw(into)
		s.isDrawn = true
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
	into := s.shared.Values()
	if into == nil {
		into = memory.Zeros[float32](s.Size())
		s.shared, s.isDrawn = memory.WeakTo(into), false
	}
	return into
}

// IsInMemory reports whether the numbers that Shared returns are in memory.
func (s *InitialValue) IsInMemory() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.values != nil || s.isDrawn && s.shared.Values() != nil
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
