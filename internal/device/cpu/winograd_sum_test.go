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

// Sums in the planes of the transforms agree with loops in float64 and have the same bits for
// any number of threads. NaN in records of factor 0 does not change them.
func TestWinogradSum_AgreesWithReference(t *testing.T) {
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
		if f.KernelH == 5 { // 5×5 windows are summed without factors only
			factors = slices.Repeat([]float32{1}, records)
		}
		start := normal(f.Size())
		want := make([]float32, f.Size())
		lowerReference(op.ClippedSum{Form: f, Records: records}, call{
			in: [][]float32{x, delta, factors}, out: want,
			shapes: []tensor.Shape{{records * each, f.C, f.H, f.W}, {records * each, f.O, f.H, f.W}, {records}},
		})()
		if f.KernelH == 5 {
			factors = nil
		} else {
			for i := range f.C * f.H * f.W {
				x[each*f.C*f.H*f.W+i] = float32(math.NaN())
			}
		}
		for _, accumulate := range []bool{false, true} {
			var first []float32
			for threads := 1; threads <= 3; threads++ {
				pool := newPool(threads)
				defer pool.close()
				l := newLowering(&plan.Program{}, nil, pool)
				s := newWinogradSum(l, v, x, delta, factors)
				if s == nil {
					t.Skip("no kernel")
				}
				out := append([]float32(nil), start...)
				step := lowerWinogradSum(l, s, out, accumulate)
				step()
				if !accumulate { // the second run overwrites the first
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
					t.Errorf("%v: relative error %v", f, math.Sqrt(off/size))
				}
				if first == nil {
					first = out
				} else if !slices.Equal(first, out) {
					t.Errorf("%v: different bits with %d threads", f, threads)
				}
			}
		}
	}
}

// A picture whose transform overflows float32 would make the sum NaN although its record's
// gradient is zero. Its norm must be infinite or NaN, which excludes the record.
func TestWinogradSum_ExcludesOverflow(t *testing.T) {
	f := op.ConvWeight{Window: op.Window{KernelH: 3, KernelW: 3, PadH: 1, PadW: 1}, Groups: 1, C: 16, H: 9, W: 11, O: 17}
	f.StrideH, f.StrideW, f.DilationH, f.DilationW = 1, 1, 1, 1
	v := newConvolution(f)
	pool := newPool(1)
	defer pool.close()
	l := newLowering(&plan.Program{}, nil, pool)
	x, delta := make([]float32, f.C*f.H*f.W), make([]float32, f.O*v.area)
	s := newWinogradSum(l, v, x, delta, []float32{1})
	if s == nil {
		t.Skip("no kernel")
	}
	squared, sum := make([]float32, 1), make([]float32, f.Size())
	norms := lowerConvGramNorms(l, f, 1, call{in: [][]float32{x, delta}, out: squared})
	add := lowerWinogradSum(l, s, sum, false)
	refused := false
	for _, size := range []float32{1e30, 1e36, 1e37, 5e37, 1e38, math.MaxFloat32} {
		for i := range x {
			x[i] = size
		}
		norms()
		add()
		number := !slices.ContainsFunc(sum, func(v float32) bool { return v != v })
		if refused = !(squared[0] <= math.MaxFloat32); !refused && !number {
			t.Errorf("pictures of %v without a signal: the squared norm is %v, but the sum is NaN", size, squared[0])
		}
	}
	if !refused {
		t.Error("no picture overflowed")
	}
}

// The constants of winogradRoundings bound the norms of the transforms' matrices.
func TestWinogradRoundings_BoundTransforms(t *testing.T) {
	w := simd.Winograd{Taps: 3}
	if !w.HasKernels() {
		t.Skip("no kernels")
	}
	const lanes, image, signal = simd.WinogradLanes, 2*simd.WinogradLanes + 2, 2 * simd.WinogradLanes
	column := func(in []float32, at int, transform func(dst, in []float32)) []float64 {
		clear(in)
		in[at] = 1
		out := make([]float32, max(16, 9)*lanes)
		transform(out, in)
		column := make([]float64, 16)
		for p := range column {
			column[p] = float64(out[p*lanes])
		}
		return column
	}
	var images, signals, gradients [][]float64
	for p := range 16 {
		images = append(images, column(make([]float32, 5*image), p/4*image+p%4, func(dst, in []float32) { w.Image(dst, lanes, in, image, 1) }))
		gradients = append(gradients, column(make([]float32, 16*lanes), p*lanes, func(dst, in []float32) {
			filters := make([]float32, 9*lanes)
			w.Gradients(filters, in, lanes)
			for k := range 9 {
				dst[k*lanes] = filters[k]
			}
		}))
	}
	for p := range 4 {
		signals = append(signals, column(make([]float32, 3*signal), p/2*signal+p%2, func(dst, in []float32) { w.Signal(dst, lanes, in, signal, 1) }))
	}
	if growth := spectral(images) * spectral(signals) * spectral(gradients); !(growth <= winogradGrowth && growth > winogradGrowth/2) {
		t.Errorf("the matrices multiply rounding errors by %.1f, the constant is %v", growth, winogradGrowth)
	}
	for p, g := range gradients {
		var row float64 // of the signals' matrix
		for _, s := range signals {
			row += s[p] * s[p]
		}
		for k := range g {
			g[k] *= math.Sqrt(row)
		}
	}
	if growth := norm(images) * norm(gradients); !(growth <= winogradSumGrowth && growth > winogradSumGrowth*0.99) {
		t.Errorf("the matrices multiply the rounding errors of a sum by %.3f, the constant is %v", growth, winogradSumGrowth)
	}
	// Two pictures with the fewest positions, the tiles of other pictures in their chains, and
	// one rounding where each chain is added to the previous ones.
	if tiles := 2.0 * minWinogradArea / 4; !((tiles+simd.Chain+2)*winogradSumGrowth <= tiles*winogradGrowth) {
		t.Errorf("%v tiles are too few to cover pictures that lie in two chains", tiles)
	}
}

// norm returns the largest singular value of a matrix by the power method.
func norm(columns [][]float64) (value float64) {
	v := make([]float64, len(columns))
	for k := range v {
		v[k] = 1 + float64(k%7)/8
	}
	for range 200 {
		out := make([]float64, len(columns[0]))
		for k, c := range columns {
			for i, x := range c {
				out[i] += v[k] * x
			}
		}
		value = math.Sqrt(dot(out, out) / dot(v, v))
		for k, c := range columns {
			v[k] = dot(c, out)
		}
		length := math.Sqrt(dot(v, v))
		for k := range v {
			v[k] /= length
		}
	}
	return value
}

func dot(a, b []float64) (sum float64) {
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

// spectral returns an upper bound on the norm of a matrix of absolute values: the geometric
// mean of the largest column sum and the largest row sum.
func spectral(columns [][]float64) float64 {
	var column, row float64
	for k := range columns[0] {
		var sum float64
		for _, c := range columns {
			sum += math.Abs(c[k])
		}
		row = max(row, sum)
	}
	for _, c := range columns {
		var sum float64
		for _, v := range c {
			sum += math.Abs(v)
		}
		column = max(column, sum)
	}
	return math.Sqrt(row * column)
}
