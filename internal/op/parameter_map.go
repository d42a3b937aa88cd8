package op

import (
	"fmt"
	"slices"

	"gorgonia.org/tensor"
)

// Map sends the elements of a view of a parameter to the parameter's own.
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

// Scatter adds g, laid out as the view, to dst, laid out as the parameter.
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

// MaxMultiplicity is how many places of a view are one element of a parameter of so many, at most.
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

// NewMap fixes a map; at is not copied.
func NewMap(at []int32) *Map {
	m := &Map{At: at, hash: 14695981039346656037}
	for _, v := range at {
		m.hash = (m.hash ^ uint64(uint32(v))) * 1099511628211
	}
	return m
}

// Scatter lays a view's clipped sum out as the parameter of Size elements.
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

// Sources lists for each element of the parameter those of the view that belong to it, so
// that each is written once: for element i, from[first[i]:first[i+1]], in order.
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
