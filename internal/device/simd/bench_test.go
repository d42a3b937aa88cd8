package simd

import (
	"math/rand/v2"
	"testing"
	"time"
)

// peak returns the highest rate, in GFLOP/s, of independent fused multiply-adds in registers
// on one thread; 0 without assembly.
func peak(k *kernels) float64 {
	best := 0.0
	for range 5 {
		const rounds = 200_000
		start := time.Now()
		best = max(best, k.fma(rounds)/time.Since(start).Seconds()/1e9)
	}
	return best
}

func BenchmarkGemm(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, shape := range []struct {
		name           string
		transA, transB bool
		m, n, k        int
	}{
		{"mlp/NN-256x1000x784", false, false, 256, 1000, 784},
		{"mlp/TN-784x1000x256", true, false, 784, 1000, 256},
		{"mlp/NT-256x784x1000", false, true, 256, 784, 1000},
		{"logits/NN-256x10x1000", false, false, 256, 10, 1000},
		{"logits/TN-1000x10x256", true, false, 1000, 10, 256},
		{"logits/NT-256x1000x10", false, true, 256, 1000, 10},
		{"conv/NN-16x196x64", false, false, 16, 196, 64},
		{"conv/NN-32x25x256", false, false, 32, 25, 256},
		{"conv/NN-64x576x75", false, false, 64, 576, 75},
		{"conv/NN-64x144x1600", false, false, 64, 144, 1600},
		{"conv/NN-128x64x1152", false, false, 128, 64, 1152},
		{"conv/NT-64x1600x144", false, true, 64, 1600, 144},
		{"conv/TN-1600x144x64", true, false, 1600, 144, 64},
		{"attention/NT-64x64x32", false, true, 64, 64, 32},
		{"vector/NN-1x1000x784", false, false, 1, 1000, 784},
		{"square/NN-1024", false, false, 1024, 1024, 1024},
	} {
		g := Gemm{TransA: shape.transA, TransB: shape.transB, M: shape.m, N: shape.n, K: shape.k, LDA: shape.k, LDB: shape.n, LDC: shape.n}
		if g.TransA {
			g.LDA = g.M
		}
		if g.TransB {
			g.LDB = g.K
		}
		x, y, c, ws := random(rng, g.M*g.K), random(rng, g.K*g.N), make([]float32, g.M*g.N), NewWorkspace()
		for _, k := range supported {
			b.Run(shape.name+"/"+k.name, func(b *testing.B) {
				top := peak(k)
				for b.Loop() {
					g.run(k, c, x, y, ws, 0, 1)
				}
				rate := 2 * float64(g.M) * float64(g.N) * float64(g.K) * float64(b.N) / b.Elapsed().Seconds() / 1e9
				b.ReportMetric(rate, "GFLOP/s")
				if top > 0 {
					b.ReportMetric(100*rate/top, "%peak")
				}
			})
		}
	}
}

// benchmarkBandwidth reports the memory traffic in GB/s of a kernel that reads and writes the
// given number of floats per call.
func benchmarkBandwidth(b *testing.B, floats int, f func()) {
	b.Helper()
	for b.Loop() {
		f()
	}
	b.ReportMetric(4*float64(floats)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
}

func BenchmarkPointwise(b *testing.B) {
	const n = 4096
	rng := rand.New(rand.NewPCG(2, 2))
	x, y, d := random(rng, n), random(rng, n), make([]float32, n)
	for _, f := range []struct {
		name   string
		floats int
		run    func()
	}{
		{"Add", 3 * n, func() { Add(d, x, y) }},
		{"Axpy", 3 * n, func() { Axpy(d, x, 0.1) }},
		{"ReLU", 2 * n, func() { ReLU(d, x) }},
		{"Exp", 2 * n, func() { Exp(d, x) }},
		{"Tanh", 2 * n, func() { Tanh(d, x) }},
		{"Sigmoid", 2 * n, func() { Sigmoid(d, x) }},
		{"GELU", 2 * n, func() { GELU(d, x) }},
		{"GELUGrad", 3 * n, func() { GELUGrad(d, y, x) }},
		{"Dot", 2 * n, func() { Dot(x, y) }},
		{"SumSquares", n, func() { SumSquares(x) }},
		{"Max", n, func() { Max(x) }},
		{"Softmax64", 2 * 64, func() { Softmax(d[:64], x[:64]) }},
		{"ColSums64x64", n, func() { ColSums(d[:64], x, 64, 64, 64, nil, false) }},
		{"Transpose64x64", 2 * n, func() { Transpose(d, 64, x, 64, 64, 64) }},
	} {
		b.Run(f.name, func(b *testing.B) { benchmarkBandwidth(b, f.floats, f.run) })
	}
}

func BenchmarkWindow(b *testing.B) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, f := range []struct {
		name string
		w    Window
	}{
		{"mnist1", Window{1, 28, 28, 8, 8, 2, 2, 3, 3, 1, 1}},
		{"mnist2", Window{16, 13, 13, 4, 4, 2, 2, 0, 0, 1, 1}},
		{"cifar5x5", Window{64, 12, 12, 5, 5, 1, 1, 2, 2, 1, 1}},
		{"cifar3x3", Window{32, 32, 32, 3, 3, 1, 1, 1, 1, 1, 1}},
		{"pool2x2s1", Window{16, 14, 14, 2, 2, 1, 1, 0, 0, 1, 1}},
		{"pool2x2s2", Window{64, 24, 24, 2, 2, 2, 2, 0, 0, 1, 1}},
	} {
		oh, ow := f.w.OutputSize()
		positions, taps := oh*ow, f.w.C*f.w.KH*f.w.KW
		img, patches := random(rng, f.w.C*f.w.H*f.w.W), random(rng, taps*positions)
		pooled, arg := random(rng, f.w.C*positions), make([]int32, f.w.C*positions)
		b.Run(f.name+"/Im2col", func(b *testing.B) {
			benchmarkBandwidth(b, len(patches), func() { f.w.Im2col(patches, positions, img) })
		})
		b.Run(f.name+"/Col2im", func(b *testing.B) {
			benchmarkBandwidth(b, len(patches), func() { f.w.Col2im(img, patches, positions) })
		})
		b.Run(f.name+"/MaxPool", func(b *testing.B) { benchmarkBandwidth(b, len(patches), func() { f.w.MaxPool(pooled, arg, img) }) })
		b.Run(f.name+"/MaxPoolGrad", func(b *testing.B) { benchmarkBandwidth(b, len(pooled), func() { MaxPoolGrad(img, pooled, arg) }) })
	}
}
