package memory

import (
	"unsafe"
	"weak"
)

// WeakSlice refers to numbers and does not keep them in memory. The zero value refers to none.
type WeakSlice[T any] struct {
	first weak.Pointer[T]
	n     int
}

// WeakTo returns a reference to numbers.
func WeakTo[T any](s []T) WeakSlice[T] {
	if len(s) == 0 {
		return WeakSlice[T]{}
	}
	return WeakSlice[T]{weak.Make(&s[0]), len(s)}
}

// Values returns the numbers; nil if no other slice has kept them in memory.
func (w WeakSlice[T]) Values() []T {
	first := w.first.Value()
	if first == nil {
		return nil
	}
	return unsafe.Slice(first, w.n)
}
