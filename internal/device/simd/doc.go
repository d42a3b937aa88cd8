// Package simd contains the arithmetic of the CPU kernels: the matrix product,
// elementwise functions, reductions, and the copies that convolution and pooling need,
// all in float32. A product can read a matrix of 16-bit numbers.
//
// Every function has a pure-Go implementation and assembly implementations: AVX2 with FMA
// and AVX-512 on amd64, NEON on arm64. The fastest one that the processor supports is
// chosen once, at start. The build tag noasm leaves pure Go only.
//
// A result depends on the values alone. The order of a sum depends on its length, never on
// alignment, on neighbouring rows or columns, or on how threads share the work.
//
// # The product
//
// Most time goes to C = op(A)·op(B). One thread computes strips of C in tiles that fit the vector
// registers; k is cut into blocks of [Chain] steps, and each block is one chain of multiply-adds:
//
//	       n                       for each block of k:
//	  ┌─────────┐                    pack B into panels, where several tiles read them
//	k │ B       │                    for each tile of mr×nr elements of C:
//	  ├─────────┤                      sum = 0
//	  │ block   │                      for p in the block: sum += op(A)[i][p]·B[p][j]
//	  └─────────┘                      C += sum, then bias and ReLU in the last block
//
// The order of a sum is therefore a function of k alone. [Gemm].Factors multiplies row k of B by a
// factor: with k over the rows of a microbatch this is the clipped sum Aᵀ·diag(c)·Δ, at the cost of an
// ordinary weight gradient.
//
// # Where each part lives
//
//   - kernels.go: the contract of each assembly function; purego.go: the same in Go;
//     kernels_amd64.go, kernels_arm64.go: the choice among implementations. internal/asm has the
//     generators of the files zz_*.
//   - gemm.go, gemm_blocks.go, gemm_panels.go, gemm_skinny.go: products. transpose.go, widen.go.
//   - pointwise.go, reduce.go: elementwise functions, LSTM steps, sums and norms.
//   - window.go, unfold.go, patches.go, winograd.go, pool.go: convolution and pooling.
//
// A slice that is too short for the stated shape is a bug of the caller and panics, like an
// index out of range. Functions do not allocate unless their doc comment states it.
package simd
