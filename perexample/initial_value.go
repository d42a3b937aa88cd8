package perexample

import (
	"fmt"
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// InitialValue is a parameter's initial value, drawn when it is needed. A network that is
// only inspected therefore takes no memory for its weights. gorgonia.Let binds it to the
// parameter. Gorgonia's own machines need a tensor instead: make one from Data.
type InitialValue struct {
	shape  tensor.Shape
	draw   func(into []float32)
	values []float32 // set by Data
}

var _ G.Value = (*InitialValue)(nil)

// NewInitialValue returns an initial value of the given shape. Draw must fill the whole slice,
// with the same numbers in every call.
func NewInitialValue(draw func(into []float32), shape ...int) *InitialValue {
	return &InitialValue{shape: tensor.Shape(shape), draw: draw}
}

// Draw writes the value to memory of its size.
func (s *InitialValue) Draw(into []float32) {
	if s.values != nil {
		copy(into, s.values)
		return
	}
	s.draw(into)
}

// Data returns the value as a []float32. The first call draws it; later calls return the
// same slice, so a change to it changes the value.
func (s *InitialValue) Data() any {
	if s.values == nil {
		s.values = make([]float32, s.Size())
		s.draw(s.values)
	}
	return s.values
}

// equals reports whether two values have the same bits. It keeps no copy of them.
func (s *InitialValue) equals(other *InitialValue) bool {
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
