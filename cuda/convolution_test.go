//go:build gpu

package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/plan"
	"gorgonia.org/tensor"
)

// operation is an operation with its operands.
type operation struct {
	spec   op.Spec
	shapes []tensor.Shape
	in     [][]float32
}

// given draws operands of the given shapes.
func given(r *rand.Rand, s op.Spec, shapes ...tensor.Shape) operation {
	o := operation{spec: s, shapes: shapes}
	for _, shape := range shapes {
		x := make([]float32, shape.TotalSize())
		for i := range x {
			x[i] = float32(0.2 * r.NormFloat64())
		}
		o.in = append(o.in, x)
	}
	return o
}

// run gives the result on the device.
func (o operation) run(t *testing.T, options Options) []float32 {
	t.Helper()
	p := &plan.Program{Batch: 1, Records: 1, PerRecord: 1}
	code := plan.Instruction{Spec: o.spec, Out: len(o.in)}
	for i, s := range o.shapes {
		p.Buffers = append(p.Buffers, plan.Buffer{Name: fmt.Sprint("input ", i), Shape: s, Role: plan.Input, Index: i, Base: i})
		code.In = append(code.In, i)
	}
	shape, err := o.spec.Shape(o.shapes)
	if err != nil {
		t.Fatal(err)
	}
	p.Buffers = append(p.Buffers, plan.Buffer{Name: "output", Shape: shape, Role: plan.Output, Base: code.Out})
	p.Front = []plan.Instruction{code}
	m, err := New(p, optim.Optimizer{Kind: optim.KindSGD}, false, options)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i, x := range o.in {
		copy(m.Input(i), x)
	}
	if err := m.Forward(); err != nil {
		t.Fatal(err)
	}
	return append([]float32(nil), m.Output()...)
}

// reference is the result in float64, and the largest sum of absolute terms.
func (o operation) reference() (want []float64, scale float64) {
	for _, absolute := range []bool{true, false} {
		wide := make([][]float64, len(o.in))
		for i, x := range o.in {
			for _, v := range x {
				if wide[i] = append(wide[i], float64(v)); absolute {
					wide[i][len(wide[i])-1] = math.Abs(float64(v))
				}
			}
		}
		shape, _ := o.spec.Shape(o.shapes)
		want = make([]float64, shape.TotalSize())
		o.spec.Do(want, wide, o.shapes)
		if absolute {
			for _, v := range want {
				scale = math.Max(scale, v)
			}
		}
	}
	return want, scale
}

func (o operation) compare(t *testing.T, got []float32, tolerance float64) {
	t.Helper()
	want, scale := o.reference()
	for i, w := range want {
		if !(math.Abs(float64(got[i])-w) <= tolerance*scale) {
			t.Fatalf("%v: element %d of %d is %v, want %v", o.spec, i, len(got), got[i], w)
		}
	}
}

func square(kernel, stride, pad int) op.Window {
	return op.Window{KernelH: kernel, KernelW: kernel, StrideH: stride, StrideW: stride, PadH: pad, PadW: pad, DilationH: 1, DilationW: 1}
}

// long are convolutions, and their gradients in the pictures, whose sums over k take
// more than one slice; the second has as many phases as take two launches.
func long(r *rand.Rand) []operation {
	f := op.ConvWeight{Window: square(5, 1, 2), Groups: 1, C: 42, H: 5, W: 6, O: 42}
	apart := op.ConvWeight{Window: square(5, 5, 0), Groups: 2, C: 84, H: 10, W: 10, O: 6}
	return []operation{
		given(r, op.Conv2D{Window: f.Window, Groups: 1, Act: op.Tanh}, tensor.Shape{1, 42, 5, 6}, tensor.Shape{42, 42, 5, 5}, tensor.Shape{42}),
		given(r, op.ConvGradInput(f), tensor.Shape{1, 42, 5, 6}, tensor.Shape{42, 42, 5, 5}),
		given(r, op.Conv2D{Window: apart.Window, Groups: 2, Act: op.ReLU}, tensor.Shape{2, 84, 10, 10}, tensor.Shape{6, 42, 5, 5}, tensor.Shape{6}),
		given(r, op.ConvGradInput(apart), tensor.Shape{2, 6, 2, 2}, tensor.Shape{6, 42, 5, 5}),
	}
}

// Neither the tile nor whether slices have blocks of their own changes a bit. One
// operation is enough on tensor cores, which are slow to emulate.
func TestConvolutionTilesAgree(t *testing.T) {
	device(t)
	tolerance := map[Precision]float64{FP32: 2e-6, TF32: 2e-3, BF16: 1.5e-2}
	for precision, tiles := range convolutionTiles {
		for i, o := range long(rand.New(rand.NewPCG(1, 6))) {
			if precision != FP32 && (i > 0 || testing.Short()) {
				continue
			}
			t.Run(fmt.Sprint(precision, " ", o.spec), func(t *testing.T) {
				var first []float32
				for _, one := range tiles {
					for _, speed := range []float64{1e-6, 1e6} { // slices apart, and not
						one.speed = speed
						got := forced(convolutionTiles, precision, one, func() []float32 { return o.run(t, Options{Precision: precision}) })
						if first == nil {
							o.compare(t, got, tolerance[precision])
							first = got
						}
						same(t, "tile "+one.name, got, first)
					}
				}
			})
		}
	}
}

// forced runs f with one tile alone to choose from.
func forced[K comparable](from map[K][]tile, key K, one tile, f func() []float32) []float32 {
	all := from[key]
	from[key] = []tile{one}
	defer func() { from[key] = all }()
	return f()
}

func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d is %v, was %v", what, i, got[i], want[i])
		}
	}
}

// A record's gradient has the same bits whatever the tile, its slices apart or not, and
// the sum over records is right, for pictures whose rows come in fours, whose places do,
// and neither.
func TestConvolutionWeightTilesAgree(t *testing.T) {
	device(t)
	r := rand.New(rand.NewPCG(2, 6))
	const records = 3
	all := weightTiles
	defer func() { weightTiles = all }()
	for _, side := range [][2]int{{20, 16}, {18, 18}, {17, 19}} {
		f := op.ConvWeight{Window: square(3, 1, 1), Groups: 1, C: 15, H: side[0], W: side[1], O: 33}
		x, y := tensor.Shape{records, 15, side[0], side[1]}, tensor.Shape{records, 33, side[0], side[1]}
		kept := given(r, op.RecordGradients{Form: f, Records: records}, x, y)
		sum := given(r, op.ClippedSum{Form: f, Records: records}, x, y, tensor.Shape{records})
		sum.in[2][1] = 0
		var first []float32
		for _, one := range all {
			for _, speed := range []float64{1e-6, 1e6} { // slices apart, and not
				one.speed = speed
				weightTiles = []tile{one}
				got := kept.run(t, Options{})
				if first == nil {
					kept.compare(t, got, 1e-6)
					first = got
				}
				same(t, fmt.Sprintf("%v: tile %s", kept.spec, one.name), got, first)
				sum.compare(t, sum.run(t, Options{}), 1e-6)
			}
		}
	}
}
