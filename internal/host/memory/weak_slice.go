package memory

import (
	"unsafe"
	"weak"
)

// WeakSlice refers to numbers and does not keep them in memory. The zero value refers to none.
type WeakSlice struct {
	first weak.Pointer[float32]
	n     int
}

// WeakTo returns a reference to numbers.
func WeakTo(s []float32) WeakSlice {
	if len(s) == 0 {
		return WeakSlice{}
	}
	return WeakSlice{weak.Make(&s[0]), len(s)}
}

// Values returns the numbers; nil if no other slice has kept them in memory.
func (w WeakSlice) Values() []float32 {
	first := w.first.Value()
	if first == nil {
		return nil
	}
	return unsafe.Slice(first, w.n)
}
