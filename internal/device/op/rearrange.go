package op

import (
	"fmt"
	"slices"

	"gorgonia.org/tensor"
)

// MaxDims is the largest number of axes that these operations support.
const MaxDims = 8

// Axes is a short list of axes. It is an array so that operations are comparable.
type Axes struct {
	N  int
	At [MaxDims]int
}

// AxesOf makes a list of axes.
func AxesOf(at ...int) Axes {
	a := Axes{N: len(at)}
	copy(a.At[:], at)
	return a
}

// List returns the axes as a slice.
func (a Axes) List() []int { return a.At[:a.N] }

// Has reports whether the axis is listed.
func (a Axes) Has(axis int) bool { return slices.Contains(a.List(), axis) }

func (a Axes) String() string { return fmt.Sprint(a.List()) }

// OuterInner is the number of elements before and after an axis.
func OuterInner(s tensor.Shape, axis int) (outer, inner int) {
	outer, inner = 1, 1
	for i, n := range s {
		switch {
		case i < axis:
			outer *= n
		case i > axis:
			inner *= n
		}
	}
	return outer, inner
}

// Reshape changes the shape. Every element keeps its place in memory.
type Reshape struct{ To Axes }

func (r Reshape) String() string { return fmt.Sprintf("reshape{%v}", r.To) }

func (r Reshape) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	to := tensor.Shape(r.To.List()).Clone()
	if to.TotalSize() != in[0].TotalSize() {
		return nil, fmt.Errorf("%v does not fit %v", in[0], to)
	}
	return to, nil
}

func (r Reshape) Do(out []float64, in [][]float64, _ []tensor.Shape) { copy(out, in[0]) }

// Permute reorders axes: axis i of the result is axis Order[i] of the input.
type Permute struct{ Order Axes }

func (p Permute) String() string { return fmt.Sprintf("permute{%v}", p.Order) }

func (p Permute) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	if in[0].Dims() != p.Order.N {
		return nil, fmt.Errorf("order %v is not a permutation of the axes of shape %v", p.Order, in[0])
	}
	out := make(tensor.Shape, p.Order.N)
	for i, a := range p.Order.List() {
		if a < 0 || a >= p.Order.N || slices.Contains(p.Order.List()[:i], a) {
			return nil, fmt.Errorf("order %v is not a permutation of the axes of shape %v", p.Order, in[0])
		}
		out[i] = in[0][a]
	}
	return out, nil
}

// Index is, for each element of the result, its index in the input.
func (p Permute) Index(in tensor.Shape) []int32 {
	shape, _ := p.Shape([]tensor.Shape{in})
	from := in.CalcStrides()
	at := make([]int32, in.TotalSize())
	pos := make([]int, len(shape))
	for i := range at {
		k := 0
		for d, x := range pos {
			k += x * from[p.Order.At[d]]
		}
		at[i] = int32(k)
		for d := len(pos) - 1; d >= 0; d-- {
			if pos[d]++; pos[d] < shape[d] {
				break
			}
			pos[d] = 0
		}
	}
	return at
}

func (p Permute) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	for i, k := range p.Index(shapes[0]) {
		out[i] = in[0][k]
	}
}

// Repeat repeats each slice along an axis Times times. As in Gorgonia, the copies of a
// slice are consecutive.
type Repeat struct{ Axis, Times int }

func (r Repeat) String() string { return fmt.Sprintf("repeat{%d,%d}", r.Axis, r.Times) }

func (r Repeat) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	if r.Times < 1 {
		return nil, fmt.Errorf("%d copies: at least one is needed", r.Times)
	}
	if in[0].Dims() == 0 {
		return tensor.Shape{r.Times}, nil
	}
	if r.Axis < 0 || r.Axis >= in[0].Dims() {
		return nil, fmt.Errorf("axis %d does not exist in shape %v", r.Axis, in[0])
	}
	s := in[0].Clone()
	s[r.Axis] *= r.Times
	return s, nil
}

func (r Repeat) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	_, inner := OuterInner(shapes[0], r.Axis)
	for i := range out {
		out[i] = in[0][i/(inner*r.Times)*inner+i%inner]
	}
}

// Slice takes Count slices along an axis, starting at From, in steps of Step.
type Slice struct{ Axis, From, Count, Step int }

func (s Slice) String() string {
	return fmt.Sprintf("slice{%d,%d,%d,%d}", s.Axis, s.From, s.Count, s.Step)
}

func (s Slice) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	if s.Axis < 0 || s.Axis >= in[0].Dims() || s.From < 0 || s.Count < 1 || s.Step < 1 || s.From+(s.Count-1)*s.Step >= in[0][s.Axis] {
		return nil, fmt.Errorf("the slice is empty or exceeds shape %v", in[0])
	}
	out := in[0].Clone()
	out[s.Axis] = s.Count
	return out, nil
}

// sourceIndex is the index in the whole tensor of an element of the slice.
func (s Slice) sourceIndex(i, whole, inner int) int {
	o, k, j := i/(s.Count*inner), i/inner%s.Count, i%inner
	return (o*whole+s.From+k*s.Step)*inner + j
}

func (s Slice) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	_, inner := OuterInner(shapes[0], s.Axis)
	for i := range out {
		out[i] = in[0][s.sourceIndex(i, shapes[0][s.Axis], inner)]
	}
}

// SliceGrad writes the gradient of a slice into zeros of the whole tensor's shape. Its
// inputs are the whole tensor, for its shape, and the gradient.
type SliceGrad struct{ Slice Slice }

func (s SliceGrad) String() string { return fmt.Sprintf("sliceGrad{%v}", s.Slice) }

func (s SliceGrad) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	y, err := s.Slice.Shape(in[:1])
	if err == nil && in[1].TotalSize() != y.TotalSize() {
		err = fmt.Errorf("gradient of shape %v where %v is needed", in[1], y)
	}
	return in[0].Clone(), err
}

func (s SliceGrad) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	clear(out)
	_, inner := OuterInner(shapes[0], s.Slice.Axis)
	for i, g := range in[1] {
		out[s.Slice.sourceIndex(i, shapes[0][s.Slice.Axis], inner)] = g
	}
}

// Concat concatenates tensors along an axis.
type Concat struct{ Axis int }

func (c Concat) String() string { return fmt.Sprintf("concat{%d}", c.Axis) }

func (c Concat) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if len(in) == 0 {
		return nil, fmt.Errorf("no tensors to concatenate")
	}
	out := in[0].Clone()
	for _, s := range in[1:] {
		for i := range out {
			if s.Dims() != out.Dims() || c.Axis < 0 || c.Axis >= s.Dims() || i != c.Axis && s[i] != out[i] {
				return nil, fmt.Errorf("shapes %v cannot be concatenated along axis %d", in, c.Axis)
			}
		}
		out[c.Axis] += s[c.Axis]
	}
	return out, nil
}

func (c Concat) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	outer, inner := OuterInner(shapes[0], c.Axis)
	at := 0
	for o := range outer {
		for i, x := range in {
			n := shapes[i][c.Axis] * inner
			at += copy(out[at:], x[o*n:(o+1)*n])
		}
	}
}

// SumAxes sums over the listed axes.
type SumAxes struct{ Over Axes }

func (s SumAxes) String() string { return fmt.Sprintf("sum{%v}", s.Over) }

func (s SumAxes) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	var out tensor.Shape
	for i, n := range in[0] {
		if !s.Over.Has(i) {
			out = append(out, n)
		}
	}
	return out, nil
}

func (s SumAxes) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	clear(out)
	kept, _ := s.Shape(shapes)
	from, to := shapes[0].CalcStrides(), kept.CalcStrides()
	for i, x := range in[0] {
		k, d := 0, 0
		for axis, n := range shapes[0] {
			if !s.Over.Has(axis) {
				k += i / from[axis] % n * to[d]
				d++
			}
		}
		out[k] += x
	}
}
