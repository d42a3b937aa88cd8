package op

import (
	"fmt"
	"slices"

	"gorgonia.org/tensor"
)

// Map maps the elements of a view of a parameter to the elements of the parameter.
type Map struct {
	At   []int32
	hash uint64
}

func (m *Map) String() string {
	if m == nil {
		return "self"
	}
	return fmt.Sprintf("%d:%016x", len(m.At), m.hash)
}

// Scatter adds g, in the layout of the view, to dst, in the layout of the parameter.
func (m *Map) Scatter(dst, g []float64) {
	if m == nil {
		for i, v := range g {
			dst[i] += v
		}
		return
	}
	for i, v := range g {
		if at := m.At[i]; at >= 0 {
			dst[at] += v
		}
	}
}

// MaxMultiplicity is the largest number of elements of the view that map to one element
// of a parameter of the given size.
func (m *Map) MaxMultiplicity(size int) int {
	if m == nil {
		return 1
	}
	most, places := 1, make([]int, size)
	for _, to := range m.At {
		if to >= 0 {
			places[to]++
			most = max(most, places[to])
		}
	}
	return most
}

// NewMap makes a map. It does not copy at.
func NewMap(at []int32) *Map {
	m := &Map{At: at, hash: 14695981039346656037}
	for _, v := range at {
		m.hash = (m.hash ^ uint64(uint32(v))) * 1099511628211
	}
	return m
}

// Scatter writes a view's clipped sum in the layout of the parameter of Size elements.
type Scatter struct {
	At   *Map
	Size int
}

func (s Scatter) String() string { return fmt.Sprintf("scatter{%v,%d}", s.At, s.Size) }

func (s Scatter) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	if in[0].TotalSize() != len(s.At.At) {
		return nil, fmt.Errorf("shape %v for a view of %d elements", in[0], len(s.At.At))
	}
	return tensor.Shape{s.Size}, nil
}

func (s Scatter) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	clear(out)
	s.At.Scatter(out, in[0])
}

// Sources lists the view's elements that map to each element of the parameter:
// from[first[i]:first[i+1]], in order, for element i. A device can then write each
// element once.
func (s Scatter) Sources() (first, from []int32) {
	first = make([]int32, s.Size+1)
	for _, at := range s.At.At {
		if at >= 0 {
			first[at+1]++
		}
	}
	for i := range s.Size {
		first[i+1] += first[i]
	}
	from = make([]int32, first[s.Size])
	next := slices.Clone(first)
	for i, at := range s.At.At {
		if at >= 0 {
			from[next[at]] = int32(i)
			next[at]++
		}
	}
	return first, from
}
