// Package simd describes the amd64 assembly of package simd: products of matrices, element-wise
// functions, reductions, windows and Winograd transforms for AVX2 and AVX-512.
//
// # The idea
//
// A generator function describes leaf functions with virtual registers; avo assigns real ones. A
// kernel is written once for a number of lanes, and emitted for 8 floats (AVX2) and for 16 (AVX-512):
//
//	func(g) { x := g.load(m); g.store(g.mul(x, g.num(2)), m) }
//	  │  g.lanes = 8: VMULPS on YMM registers        g.lanes = 16: the same on ZMM registers
//	  ▼
//	zz_pointwise_amd64.s       TEXT ·…AVX2(SB) …     TEXT ·…AVX512(SB) …
//	zz_pointwise_amd64.go      //go:noescape  func …AVX2(…)
//
// An element's operations are the same in both, in the same order, and so are those of package neon
// and of pure Go. A sum of float64 numbers has 32 lanes, which are added in one order, on every
// processor: so all processors give the same bits. A product of matrices computes each element as one chain of
// fused multiply-adds in the order of k, whatever the tile:
//
//	C[i][j] = fma(A[i][K], B[K][j], … fma(A[i][1], B[1][j], fma(A[i][0], B[0][j], 0)))
//
// # Where each part lives
//
//   - generator.go: the list of files; vec.go, loop.go: the primitives of kernels.
//   - math.go: exp, tanh and their kin, as polynomials.
//   - gemm.go, pack.go: products and the packing of their operands. pointwise.go, reduce.go,
//     recurrent.go, lookup.go: rows of elements. window.go, unfold.go, pool.go, winograd.go: windows.
package simd
