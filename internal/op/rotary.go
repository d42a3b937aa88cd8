package op

import (
	"fmt"
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Rotary tells steps their positions by turning them (Su et al. 2021): of x
// [B, T, D], the first Turned columns are cut into heads of Head, and in a head
// at step t columns j and j+Head/2 turn together by the angle
// t·10000^(−2j/Head), backwards where Back is set. The other columns stay.
type Rotary struct {
	HeadDim, RotaryDims int
	Inverse             bool
}

func (r Rotary) String() string {
	return fmt.Sprintf("rotary{%d,%d,%t}", r.HeadDim, r.RotaryDims, r.Inverse)
}

func (r Rotary) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	if in[0].Dims() != 3 {
		return nil, fmt.Errorf("shape %v: [batch, time, features] is needed", in[0])
	}
	if r.HeadDim < 2 || r.HeadDim%2 != 0 || r.RotaryDims < 0 || r.RotaryDims%r.HeadDim != 0 || r.RotaryDims > in[0][2] {
		return nil, fmt.Errorf("the first %d of %d columns cannot be turned in heads of %d: an even width that divides them is needed", r.RotaryDims, in[0][2], r.HeadDim)
	}
	return in[0].Clone(), nil
}

// RotaryAngles gives cosine and sine of the angle of each step and pair of columns,
// [T, Head/2] both, worked out in float64.
func RotaryAngles[T float32 | float64](r Rotary, steps int) (cos, sin []T) {
	half := r.HeadDim / 2
	for t := range steps {
		for j := range half {
			s, c := math.Sincos(float64(t) * math.Pow(10000, -2*float64(j)/float64(r.HeadDim)))
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
