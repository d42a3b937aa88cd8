package cpu

import (
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/simd"
)

// gemm is a matrix product cut among all threads: how a product is shared does
// not change its bits.
func (c compiler) gemm(g simd.Gemm, out, a, b []float32) func() {
	return c.shards(g.M*g.N*g.K/4, func(i, n int, w *worker) { g.Run(out, a, b, w.gemm, i, n) })
}

func (c compiler) matmul(s op.MatMul, k call) func() {
	if c.made(k) {
		return func() {}
	}
	m, n, d, _ := s.Sizes(k.shapes[0], k.shapes[1])
	g := simd.Gemm{TransA: s.TransA, TransB: s.TransB, M: m, N: n, K: d, LDA: d, LDB: n, LDC: n}
	if s.TransA {
		g.LDA = m
	}
	if s.TransB {
		g.LDB = d
	}
	return c.gemm(g, k.out, k.in[0], k.in[1])
}

func (c compiler) linear(s op.Linear, k call) func() {
	if s.Act == op.Identity && c.leaves(k) {
		return func() {}
	}
	m, n, d, _ := op.MatMul{}.Sizes(k.shapes[0], k.shapes[1])
	g := simd.Gemm{M: m, N: n, K: d, LDA: d, LDB: n, LDC: n, ColBias: k.in[2], ReLU: s.Act == op.ReLU}
	product := c.gemm(g, k.out, k.in[0], k.in[1])
	if s.Act == op.Identity || s.Act == op.ReLU {
		return product
	}
	return sequence(product, c.activated(s.Act, k.out, k.out))
}

func (c compiler) matvec(s op.MatVec, k call) func() {
	product, shapes := s.Product(k.shapes)
	k.shapes = shapes
	return c.matmul(product, k)
}
