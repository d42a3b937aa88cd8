package op

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Attention is scaled dot-product self-attention with several heads (Vaswani et al.
// 2017). Its input contains queries, keys and values, concatenated, [B, T, 3D]; its
// result is [B, T, D]. Head n reads columns n·D/Heads to (n+1)·D/Heads of each. With
// Causal set, a step does not attend to later steps. An optional second input [B, T]
// marks padding: the steps whose number is below zero, as in the indices that Embed
// reads. No step attends to padding. A step that attends to no step has the result 0.
//
// With a Window of n > 0, which needs Causal, a step attends to itself and the n−1 steps before it. The products of
// queries and keys have the factor Scale, or one over the root of a head's columns if it is 0. With a Cap of c > 0, a
// scaled product s then becomes c·tanh(s/c).
//
// With Blocks set, the second input also divides an example into blocks: a step whose number is above zero begins one. A
// step attends to steps of its block only.
type Attention struct {
	Heads  int
	Causal bool
	Window int
	Scale  float64
	Cap    float64
	Blocks bool
}

func (a Attention) String() string {
	if a.Blocks {
		a.Blocks = false
		return "blocks of " + a.String()
	}
	if a.Window == 0 && a.Scale == 0 && a.Cap == 0 {
		return fmt.Sprintf("attention{%d,%t}", a.Heads, a.Causal)
	}
	return fmt.Sprintf("attention{%d,%t,%d,%g,%g}", a.Heads, a.Causal, a.Window, a.Scale, a.Cap)
}

// ScaleOf is the factor of the products of queries and keys of size columns.
func (a Attention) ScaleOf(size int) float64 { return cmp.Or(a.Scale, 1/math.Sqrt(float64(size))) }

// FirstSeen is the first step that step t sees.
func (a Attention) FirstSeen(t int) int {
	if a.Window == 0 {
		return 0
	}
	return max(0, t-a.Window+1)
}

// EndOfBlock returns the step behind the block that begins at a step.
func EndOfBlock[T float32 | float64](marks []T, begin int) int {
	for t := begin + 1; t < len(marks); t++ {
		if marks[t] > 0 {
			return t
		}
	}
	return len(marks)
}

// checkShapes checks the concatenated queries, keys and values, and the input that marks
// padding if there is one. It returns the result's shape.
func (a Attention) checkShapes(x tensor.Shape, padding []tensor.Shape) (tensor.Shape, error) {
	if x.Dims() != 3 || a.Heads < 1 || x[2]%(3*a.Heads) != 0 {
		return nil, fmt.Errorf("queries, keys and values of shape %v: [batch, time, 3·width] is needed, with a width divisible by %d heads", x, a.Heads)
	}
	if a.Window < 0 || a.Window > 0 && !a.Causal || !(a.Scale >= 0 && a.Cap >= 0) || math.IsInf(a.Scale, 1) || math.IsInf(a.Cap, 1) {
		return nil, fmt.Errorf("a window of %d steps, scale %g and cap %g: numbers of at least 0 are needed, and a window needs causal attention", a.Window, a.Scale, a.Cap)
	}
	if len(padding) > 1 {
		return nil, fmt.Errorf("%d inputs mark padding: at most one is allowed", len(padding))
	}
	if a.Blocks && len(padding) == 0 {
		return nil, fmt.Errorf("no input marks the blocks: a number for each step is needed")
	}
	for _, p := range padding {
		if p.Dims() != 2 || p[0] != x[0] || p[1] != x[1] {
			return nil, fmt.Errorf("padding marks of shape %v for %v: [batch, time] is needed", p, x)
		}
	}
	return tensor.Shape{x[0], x[1], x[2] / 3}, nil
}

func (a Attention) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if len(in) == 0 {
		return nil, checkArity(in, 1)
	}
	return a.checkShapes(in[0], in[1:])
}

// forEachQuery calls f for every step of every head of every example. The arguments are
// the indices of its query, of the first key, of the first value and of the result, and
// its attention weights with the derivatives of their scores in the products. Steps of the packed input are 3·D apart.
func (a Attention) forEachQuery(x, padding []float64, s tensor.Shape, f func(query, key, value, out int, w attentionRow)) {
	T, packed := s[1], s[2]
	width := packed / 3
	size := width / a.Heads
	scale := a.ScaleOf(size)
	row := attentionRows.Get().(*attentionRow)
	defer attentionRows.Put(row)
	for _, x := range []*[]float64{&row.weights, &row.slopes, &row.room} {
		*x = slices.Grow((*x)[:0], T)[:T]
	}
	weights, slopes := row.weights, row.slopes
	for b := range s[0] {
		for head := range a.Heads {
			key := b*T*packed + width + head*size
			begin, end := 0, T
			for t := range T {
				query := (b*T+t)*packed + head*size
				if a.Blocks && (t == 0 || t == end || padding[b*T+t] > 0) {
					begin, end = t, EndOfBlock(padding[b*T:(b+1)*T], t)
				}
				for u := range T {
					weights[u] = math.Inf(-1)
					if u < begin || u >= end || a.Causal && u > t || u < a.FirstSeen(t) || padding != nil && padding[b*T+u] < 0 {
						continue
					}
					weights[u] = 0
					for j := range size {
						weights[u] += x[query+j] * x[key+u*packed+j]
					}
					weights[u] *= scale
					slopes[u] = scale
					if a.Cap > 0 {
						y := math.Tanh(weights[u] / a.Cap)
						weights[u] = a.Cap * y
						slopes[u] *= 1 - y*y
					}
				}
				norm := logSumExp(weights)
				for u, v := range weights {
					if weights[u] = math.Exp(v - norm); math.IsInf(v, -1) {
						weights[u] = 0
					}
				}
				f(query, key, key+width, (b*T+t)*width+head*size, *row)
			}
		}
	}
}

// attentionRow has the weights of a query, the derivatives of its scores, and room for as many numbers.
type attentionRow struct{ weights, slopes, room []float64 }

// attentionRows keeps rows, because devices without a kernel for an attention compute it in each step.
var attentionRows = sync.Pool{New: func() any { return new(attentionRow) }}

// paddingMarks is the optional input that marks padding.
func paddingMarks(in [][]float64) []float64 {
	if len(in) == 0 {
		return nil
	}
	return in[0]
}

func (a Attention) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	clear(out)
	packed := shapes[0][2]
	size := packed / 3 / a.Heads
	a.forEachQuery(in[0], paddingMarks(in[1:]), shapes[0], func(_, _, value, at int, w attentionRow) {
		for u, p := range w.weights {
			for j := range size {
				if p != 0 {
					out[at+j] += p * in[0][value+u*packed+j]
				}
			}
		}
	})
}

func (a Attention) Rows(n int) []bool { return allTrue(n) }

func (a Attention) Wrt(n int) []bool {
	wrt := make([]bool, n)
	wrt[0] = true
	return wrt
}

func (a Attention) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	d, err := Apply(AttentionGrad(a), append(G.Nodes{in[0], grad}, in[1:]...)...)
	return append(G.Nodes{d}, make(G.Nodes, len(in)-1)...), err
}

// AttentionGrad is the gradient in queries, keys and values, concatenated. Its inputs are
// these, the gradient of the result and, if there is one, the input that marks padding.
// It computes the attention weights again instead of keeping them.
type AttentionGrad Attention

func (a AttentionGrad) String() string {
	return strings.Replace(Attention(a).String(), "attention", "attentionGrad", 1)
}

func (a AttentionGrad) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if len(in) < 2 {
		return nil, checkArity(in, 2)
	}
	y, err := Attention(a).checkShapes(in[0], in[2:])
	if err == nil && !in[1].Eq(y) {
		err = fmt.Errorf("gradient of shape %v where %v is needed", in[1], y)
	}
	return in[0].Clone(), err
}

func (a AttentionGrad) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	clear(out)
	x, packed := in[0], shapes[0][2]
	size := packed / 3 / a.Heads
	Attention(a).forEachQuery(x, paddingMarks(in[2:]), shapes[0], func(query, key, value, at int, w attentionRow) {
		d := in[1][at : at+size]
		slopes := w.room
		clear(slopes)
		var mean float64
		for u, p := range w.weights {
			if p == 0 {
				continue
			}
			for j, v := range d {
				out[value+u*packed+j] += p * v
				slopes[u] += v * x[value+u*packed+j]
			}
			mean += p * slopes[u]
		}
		for u, p := range w.weights {
			if p == 0 {
				continue
			}
			ds := p * (slopes[u] - mean) * w.slopes[u]
			for j := range size {
				out[query+j] += ds * x[key+u*packed+j]
				out[key+u*packed+j] += ds * x[query+j]
			}
		}
	})
}

// Rotary encodes the positions of steps by rotations (Su et al. 2021). In x [B, T, D],
// the first RotaryDims columns are cut into heads of HeadDim. In a head at step t,
// columns j and j+HeadDim/2 are rotated by the angle t·Base^(−2j/HeadDim), or by its
// negative with Inverse set. The other columns stay. A Base of 0 stands for 10000. Scaling changes the frequencies.
type Rotary struct {
	HeadDim, RotaryDims int
	Base                float64
	Scaling             RotaryScaling
	Inverse             bool
}

// RotaryScaling lowers frequencies, so that a network reads longer texts than those that it was trained on. Without
// bounds, Factor divides all of them (Chen et al. 2023). With bounds 0 < Low < High, it divides those that turn fewer
// than Low times within Steps steps, keeps those that turn more than High times, and in between moves linearly from one
// to the other (Grattafiori et al. 2024, Llama 3). A Factor of 0 stands for 1.
type RotaryScaling struct{ Factor, Low, High, Steps float64 }

// Check refuses numbers that are no scaling.
func (s RotaryScaling) Check() error {
	switch inRange := func(x float64) bool { return x > 0 && x <= 1e9 }; {
	case s == RotaryScaling{}:
		return nil
	case !inRange(s.Factor):
		return fmt.Errorf("factor %g is out of range", s.Factor)
	case s.Low == 0 && s.High == 0 && s.Steps == 0:
		return nil
	case !inRange(s.Low) || !inRange(s.High) || !inRange(s.Steps) || s.Low >= s.High:
		return fmt.Errorf("low_freq_factor %g, high_freq_factor %g or original_max_position_embeddings %g is out of range", s.Low, s.High, s.Steps)
	}
	return nil
}

// of returns the scaled frequency, an angle for each step.
func (s RotaryScaling) of(frequency float64) float64 {
	switch turns := s.Steps * frequency / (2 * math.Pi); {
	case s.Factor == 0:
		return frequency
	case s.High == 0 || turns < s.Low:
		return frequency / s.Factor
	case turns > s.High:
		return frequency
	default:
		kept := (turns - s.Low) / (s.High - s.Low)
		return (1-kept)*frequency/s.Factor + kept*frequency
	}
}

// RotaryFrequencies returns the angle by which a step turns each pair of columns of a head of size columns.
func RotaryFrequencies(size int, base float64, s RotaryScaling) []float64 {
	list := make([]float64, size/2)
	for j := range list {
		list[j] = s.of(math.Pow(cmp.Or(base, 10000), -2*float64(j)/float64(size)))
	}
	return list
}

func (r Rotary) String() string {
	if r.Scaling != (RotaryScaling{}) {
		return fmt.Sprintf("rotary{%d,%d,%g,%g,%t}", r.HeadDim, r.RotaryDims, r.Base, r.Scaling, r.Inverse)
	}
	return fmt.Sprintf("rotary{%d,%d,%g,%t}", r.HeadDim, r.RotaryDims, r.Base, r.Inverse)
}

func (r Rotary) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	if in[0].Dims() != 3 {
		return nil, fmt.Errorf("shape %v: [batch, time, features] is needed", in[0])
	}
	if r.Base < 0 || math.IsNaN(r.Base) || math.IsInf(r.Base, 1) {
		return nil, fmt.Errorf("base %g of the angles: a positive number is needed", r.Base)
	}
	if err := r.Scaling.Check(); err != nil {
		return nil, err
	}
	if r.HeadDim < 2 || r.HeadDim%2 != 0 || r.RotaryDims < 0 || r.RotaryDims%r.HeadDim != 0 || r.RotaryDims > in[0][2] {
		return nil, fmt.Errorf("the first %d of %d columns cannot be rotated in heads of %d: an even head width that divides them is needed", r.RotaryDims, in[0][2], r.HeadDim)
	}
	return in[0].Clone(), nil
}

// RotaryAngles returns cosine and sine of the angle of each step and pair of columns,
// both [T, HeadDim/2], computed in float64.
func RotaryAngles[T float32 | float64](r Rotary, steps int) (cos, sin []T) {
	frequencies := RotaryFrequencies(r.HeadDim, r.Base, r.Scaling)
	for t := range steps {
		for _, f := range frequencies {
			s, c := math.Sincos(float64(t) * f)
			if r.Inverse {
				s = -s
			}
			cos, sin = append(cos, T(c)), append(sin, T(s))
		}
	}
	return cos, sin
}

func (r Rotary) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	copy(out, in[0])
	T, D, half := shapes[0][1], shapes[0][2], r.HeadDim/2
	cos, sin := RotaryAngles[float64](r, T)
	for row := range shapes[0][0] * T {
		for head := 0; head < r.RotaryDims; head += r.HeadDim {
			for j := range half {
				at := row*D + head + j
				c, s := cos[row%T*half+j], sin[row%T*half+j]
				x, y := in[0][at], in[0][at+half]
				out[at], out[at+half] = x*c-y*s, x*s+y*c
			}
		}
	}
}

func (r Rotary) Rows(int) []bool { return allTrue(1) }
func (r Rotary) Wrt(int) []bool  { return allTrue(1) }

func (r Rotary) Diff(_ G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	r.Inverse = !r.Inverse
	d, err := Apply(r, grad)
	return G.Nodes{d}, err
}
