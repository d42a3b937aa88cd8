package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/op"
	"gorgonia.org/tensor"
)

// Sums made in the transforms' planes are those of float64 loops, whatever records
// of factor 0 hold, and have the same bits on any number of threads.
func TestWinogradSum(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	normal := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	for _, f := range []op.ConvWeight{
		{Window: op.Window{KernelH: 3, KernelW: 3, PadH: 1, PadW: 1}, C: 16, H: 9, W: 11, O: 17},
		{Window: op.Window{KernelH: 5, KernelW: 5}, C: 17, H: 12, W: 14, O: 16},
	} {
		f.Groups, f.StrideH, f.StrideW, f.DilationH, f.DilationW = 1, 1, 1, 1, 1
		v := newConvolution(f)
		const records, each = 12, 2
		x, delta := normal(records*each*f.C*f.H*f.W), normal(records*each*f.O*v.area)
		factors := []float32{0.5, 0, 2, 1, 0.1, 3, 1, 1, 0, 0.25, 1, 0.7}
		start := normal(f.Size())
		want := make([]float32, f.Size())
		reference(op.ClippedSum{Form: f, Records: records}, call{
			in: [][]float32{x, delta, factors}, out: want,
			shapes: []tensor.Shape{{records * each, f.C, f.H, f.W}, {records * each, f.O, f.H, f.W}, {records}},
		})()
		for i := range f.C * f.H * f.W {
			x[each*f.C*f.H*f.W+i] = float32(math.NaN())
		}
		for _, accumulate := range []bool{false, true} {
			var first []float32
			for threads := 1; threads <= 3; threads++ {
				pool := newPool(threads)
				defer pool.close()
				c := compiler{Machine: &Machine{pool: pool}, filters: new([]float32)}
				s := c.newWinogradSum(v, x, delta, factors)
				if s == nil {
					t.Skip("no kernel")
				}
				out := append([]float32(nil), start...)
				step := c.winogradSum(s, out, accumulate)
				step()
				if !accumulate { // a second time it starts anew
					step()
				}
				var off, size float64
				for i, w := range want {
					got := float64(out[i])
					if accumulate {
						got -= float64(start[i])
					}
					off += math.Pow(float64(w)-got, 2)
					size += float64(w) * float64(w)
				}
				if !(off <= 1e-11*size) {
					t.Errorf("%v: off by %v of its length", f, math.Sqrt(off/size))
				}
				if first == nil {
					first = out
				} else if !slices.Equal(first, out) {
					t.Errorf("%v: other bits on %d threads", f, threads)
				}
			}
		}
	}
}
