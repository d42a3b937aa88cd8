package perexample

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// InitialValue is a parameter's starting value that is drawn when it is needed, so that a
// network that is only looked at takes no memory for its weights. Let binds it to the
// parameter. Gorgonia's own machines want a tensor in its place: one of its Data.
type InitialValue struct {
	shape  tensor.Shape
	draw   func(into []float32)
	values []float32 // once Data was asked for
}

var _ G.Value = (*InitialValue)(nil)

// NewInitialValue is a starting value of that shape. Draw fills all of a slice with it, the
// same numbers whenever it is called.
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

// Data is the value as a []float32, which is drawn once and kept: who changes it
// changes the value.
func (s *InitialValue) Data() any {
	if s.values == nil {
		s.values = make([]float32, s.Size())
		s.draw(s.values)
	}
	return s.values
}

// Shape is the parameter's.
func (s *InitialValue) Shape() tensor.Shape { return s.shape }

// Size is the number of elements.
func (s *InitialValue) Size() int { return s.shape.TotalSize() }

// Dtype is that of all parameters.
func (s *InitialValue) Dtype() tensor.Dtype { return tensor.Float32 }

// MemSize is how many bytes the value takes once it is drawn.
func (s *InitialValue) MemSize() uintptr { return uintptr(4 * s.Size()) }

// Uintptr is no address: the value may not be in memory.
func (s *InitialValue) Uintptr() uintptr { return 0 }

// Format writes what it is, not the numbers.
func (s *InitialValue) Format(to fmt.State, _ rune) { fmt.Fprintf(to, "start of shape %v", s.shape) }
