package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/device/simd"
	"gorgonia.org/tensor"
)

// Convolutions with channels last agree with the operations' reference loops in float64, and
// their norms are the norms of the gradients that the clipped sum adds.
func TestPatched_AgreesWithReference(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	normal := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	for _, s := range []struct {
		op.ConvWeight
		outright bool
	}{
		{op.ConvWeight{Window: op.Window{KernelH: 8, KernelW: 8, StrideH: 2, StrideW: 2, PadH: 3, PadW: 3}, C: 1, H: 28, W: 28, O: 16}, true},
		{op.ConvWeight{Window: op.Window{KernelH: 4, KernelW: 4, StrideH: 2, StrideW: 2}, C: 16, H: 13, W: 13, O: 32}, true},
		{op.ConvWeight{Window: op.Window{KernelH: 3, KernelW: 2, StrideH: 2, StrideW: 3, PadH: 1, PadW: 1}, C: 9, H: 8, W: 11, O: 17}, true},
		{op.ConvWeight{Window: op.Window{KernelH: 1, KernelW: 1, StrideH: 2, StrideW: 2}, C: 16, H: 8, W: 8, O: 20}, true},
		{op.ConvWeight{Window: op.Window{KernelH: 3, KernelW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}, C: 16, H: 8, W: 8, O: 16}, true},
		{op.ConvWeight{Window: op.Window{KernelH: 3, KernelW: 3, StrideH: 2, StrideW: 2}, C: 16, H: 8, W: 8, O: 64}, false},
	} {
		f := s.ConvWeight
		f.Groups, f.DilationH, f.DilationW = 1, 1, 1
		for _, pictures := range []int{1, 2} {
			const records = 3
			pool := newPool(2)
			defer pool.close()
			l := newLowering(&plan.Program{}, nil, pool)
			v := newConvolution(f)
			if g := newPatched(v, false, false); g == nil || v.BuildsGradient(pictures*v.area) != s.outright {
				t.Fatalf("%v: %v", f, g)
			}
			oh, ow := v.window.OutputSize()
			n := records * pictures
			xs, ws, ys := tensor.Shape{n, f.C, f.H, f.W}, tensor.Shape{f.O, f.C, f.KernelH, f.KernelW}, tensor.Shape{n, f.O, oh, ow}
			x, weight, bias, delta := normal(xs.TotalSize()), normal(ws.TotalSize()), normal(f.O), normal(ys.TotalSize())
			factors := []float32{0.5, 0, 2}
			var norms, gradients []float32
			for _, s := range []struct {
				spec   op.Operation
				in     [][]float32
				shapes []tensor.Shape
				shape  tensor.Shape
			}{
				{op.Conv2D{Window: f.Window, Groups: 1, Act: op.Tanh}, [][]float32{x, weight, bias}, []tensor.Shape{xs, ws, {f.O}}, ys},
				{op.ConvGradInput(f), [][]float32{delta, weight}, []tensor.Shape{ys, ws}, xs},
				{op.RecordGradients{Form: f, Records: records}, [][]float32{x, delta}, []tensor.Shape{xs, ys}, tensor.Shape{records, f.Size()}},
				{op.SquaredNorms{Form: f, Records: records, Method: op.Gram}, [][]float32{x, delta}, []tensor.Shape{xs, ys}, tensor.Shape{records}},
				{op.ClippedSum{Form: f, Records: records}, [][]float32{x, delta, factors}, []tensor.Shape{xs, ys, {records}}, tensor.Shape{f.Size()}},
			} {
				sum := s.shape[0] == f.Size()
				k := call{Annotation: plan.Annotation{Norms: plan.GramNorms}, in: s.in, shapes: s.shapes, shape: s.shape, out: normal(s.shape.TotalSize()), accumulate: sum, bases: make([]int, len(s.in)), inChannelsLast: make([]bool, len(s.in))}
				want := k
				want.out = append([]float32(nil), k.out...)
				l.lowerNative(s.spec, k)()
				lowerReference(s.spec, want)()
				var off, size float64
				for i, v := range want.out {
					off += math.Pow(float64(v-k.out[i]), 2)
					size += float64(v) * float64(v)
				}
				tolerance := 1e-6
				if _, ok := s.spec.(op.SquaredNorms); ok && !v.BuildsGradient(pictures*v.area) {
					tolerance = 1.0 / 256
				}
				if !(off <= tolerance*tolerance*size) {
					t.Errorf("%v, %d pictures per record: relative error %v", s.spec, pictures, math.Sqrt(off/size))
				}
				switch s.spec.(type) {
				case op.RecordGradients:
					gradients = k.out
				case op.SquaredNorms:
					norms = k.out
				}
			}
			for record := range records {
				if !s.outright {
					break
				}
				alone := make([]float32, records)
				alone[record] = 1
				out := make([]float32, f.Size())
				// Other buffer numbers, for which no norms have saved gradients.
				l.lowerNative(op.ClippedSum{Form: f, Records: records}, call{
					in: [][]float32{x, delta, alone}, shapes: []tensor.Shape{xs, ys, {records}}, shape: tensor.Shape{f.Size()}, inChannelsLast: make([]bool, 3), bases: []int{1, 1, 1}, out: out,
				})()
				if fast := newWinogradSum(l, v, x, delta, alone); fast != nil {
					other := make([]float32, f.Size())
					if lowerWinogradSum(l, fast, other, false)(); slices.Equal(out, other) {
						t.Fatalf("%v: the sum uses Winograd transforms, and the norms are those of plain products", f)
					}
					continue
				}
				for i, v := range gradients[record*f.Size():][:f.Size()] {
					if out[i] != v {
						t.Fatalf("%v: record %d: element %d of the sum is %v, that of the gradient is %v", f, record, i, out[i], v)
					}
				}
				if got := simd.SumSquares(out); !(math.Abs(got-float64(norms[record])) <= 1e-7*got) {
					t.Errorf("%v: record %d: squared norm %v, that of the summed gradient is %v", f, record, norms[record], got)
				}
			}
		}
	}
}
