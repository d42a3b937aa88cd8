package lattice

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/cpu/gram"
	"github.com/dptrain/dptrain/internal/device/simd"
)

func report(b *testing.B, unit string, perCall float64) {
	b.ReportMetric(perCall*float64(b.N)/b.Elapsed().Seconds()/1e9, unit)
}

// BenchmarkProduct compares the integer product with the float product of the same shape.
func BenchmarkProduct(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, s := range []struct{ k, m, n int }{
		{256, 784, 1024}, {256, 1024, 1024}, {64, 2304, 256}, {256, 1024, 10}, {256, 10, 1024}, {256, 1, 1024},
		{4096, 576, 64}, {4096, 27, 32}, {16384, 25, 16}, {256, 100, 100},
	} {
		name, work := fmt.Sprintf("%dx%dx%d", s.k, s.m, s.n), 2*float64(s.k)*float64(s.m)*float64(s.n)
		x, y := make([]float32, s.k*s.m), make([]float32, s.k*s.n)
		for _, f := range [][]float32{x, y} {
			for i := range f {
				f[i] = float32(rng.NormFloat64())
			}
		}
		g := simd.Gemm{TransA: true, M: s.m, N: s.n, K: s.k, LDA: s.m, LDB: s.n, LDC: s.n, Accumulate: true, Factors: make([]float32, s.k)}
		for i := range g.Factors {
			g.Factors[i] = 0.5
		}
		c, gemm := make([]float32, s.m*s.n), simd.NewWorkspace()
		b.Run(name+"/float", func(b *testing.B) {
			for b.Loop() {
				g.Run(c, x, y, gemm, 0, 1)
			}
			report(b, "GOP/s", work)
		})
		p := &Product{M: s.m, N: s.n, K: s.k, LDC: s.n}
		a, d, ws := randomInts(rng, s.k*s.m, 100), randomInts(rng, s.k*s.n, 100), NewWorkspace()
		sum := make([]int32, s.m*s.n)
		for _, k := range supported[1:] {
			b.Run(name+"/"+k.name, func(b *testing.B) {
				for b.Loop() {
					p.run(k, sum, a, d, ws, 0, 1)
				}
				report(b, "GOP/s", work)
			})
		}
	}
}

func BenchmarkQuantize(b *testing.B) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, n := range []int{10, 784, 4096, 1 << 22} {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		dst, sum := make([]int16, n), make([]int32, n)
		for _, k := range supported {
			for name, f := range map[string]func(){
				"int16": func() { k.quantizeInt16(dst, x, 2, 1) },
				"int32": func() { k.roundInts(sum, x, 100, 1) },
			} {
				b.Run(fmt.Sprintf("%s/%d/%s", name, n, k.name), func(b *testing.B) {
					for b.Loop() {
						f()
					}
					report(b, "Gvalues/s", float64(n))
				})
			}
		}
	}
}

// BenchmarkGram compares integer and float Gram matrices.
func BenchmarkGram(b *testing.B) {
	rng := rand.New(rand.NewPCG(3, 3))
	ws := NewWorkspace()
	for _, s := range []struct{ T, n int }{{16, 64}, {25, 500}, {49, 400}, {64, 256}, {64, 576}, {196, 25}, {256, 64}} {
		rows := randomInts(rng, s.T*s.n, 100)
		out := make([]int32, s.T*s.T)
		floats, matrices := make([]float32, s.T*s.n), gram.New(make([]float32, gram.Scratch(s.T)), s.T)
		b.Run(fmt.Sprintf("%dx%d/float", s.T, s.n), func(b *testing.B) {
			for b.Loop() {
				clear(matrices.A)
				matrices.Multiply(matrices.A, gram.ContiguousRows(floats, s.n))
			}
			report(b, "GOP/s", float64(s.T)*float64(s.T)*float64(s.n))
		})
		for _, k := range supported[1:] {
			b.Run(fmt.Sprintf("%dx%d/%s", s.T, s.n, k.name), func(b *testing.B) {
				for b.Loop() {
					k.gram(out, rows, s.T, s.n, ws)
				}
				report(b, "GOP/s", float64(s.T)*float64(s.T)*float64(s.n))
			})
		}
	}
}

func BenchmarkReduce(b *testing.B) {
	const n = 4096
	x, wide, part := make([]int16, n), make([]int64, n), make([]int32, n)
	sum := NewSum(make([]int32, n))
	for name, f := range map[string]func(){
		"Add":          func() { Add(sum.Low(), part) },
		"Settle":       func() { sum.Settle(0, n) },
		"Read":         func() { sum.Read(wide, 0) },
		"SumSquares":   func() { SumSquares(x) },
		"InnerProduct": func() { InnerProduct(part, part, 64) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
			report(b, "Gvalues/s", n)
		})
	}
}

// BenchmarkUnfolding compares with the float unfolding to columns.
func BenchmarkUnfolding(b *testing.B) {
	for _, w := range []simd.Window{
		{C: 64, H: 16, W: 16, KH: 3, KW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, DilH: 1, DilW: 1},
		{C: 16, H: 14, W: 14, KH: 5, KW: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2, DilH: 1, DilW: 1},
		{C: 3, H: 32, W: 32, KH: 3, KW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, DilH: 1, DilW: 1},
		{C: 1, H: 28, W: 28, KH: 8, KW: 8, StrideH: 2, StrideW: 2, PadH: 3, PadW: 3, DilH: 1, DilW: 1},
	} {
		name := fmt.Sprintf("%dx%dx%d-%dx%d", w.C, w.H, w.W, w.KH, w.KW)
		floats := w.Unfolding()
		columns, phases := floats.BufferSizes()
		dst, image, scratch := make([]float32, columns), make([]float32, w.C*w.H*w.W), make([]float32, phases)
		b.Run(name+"/float", func(b *testing.B) {
			for b.Loop() {
				floats.Columns(dst, image, scratch)
			}
			report(b, "Gvalues/s", float64(columns))
		})
		for _, channelsLast := range []bool{false, true} {
			u := NewUnfolding(w, 1, channelsLast)
			rows, length := u.Size()
			dst, image, scratch := make([]int16, rows*length), make([]int16, w.C*w.H*w.W), make([]int16, u.Scratch())
			b.Run(fmt.Sprintf("%s/int16/last=%v", name, channelsLast), func(b *testing.B) {
				for b.Loop() {
					u.Rows(dst, image, scratch, 0)
				}
				report(b, "Gvalues/s", float64(rows*length))
			})
		}
	}
}
