// Package neon describes the arm64 assembly of the packages simd, lattice, gram and random, and
// translates it to Go's assembler.
//
// # The idea
//
// A generator function describes one leaf function of the Go assembler with virtual registers. It
// calls methods that append instructions; loops and conditions are labels. When the description is
// complete, each virtual register gets a real one for the range of instructions that need it:
//
//	newFunction("scaleNEON", "func(dst, x *float32, n int, alpha float32)")
//	  │  arguments are loaded, vectors of four floats are loaded, multiplied and stored
//	  ▼
//	instructions with virtual registers
//	  │  finish: constants are loaded at the start, registers are chosen
//	  ▼
//	zz_pointwise_arm64.s       TEXT ·scaleNEON(SB) …
//	zz_pointwise_arm64.go      //go:noescape  func scaleNEON(…)
//
// Go's assembler lacks many NEON instructions for floats. These are encoded as words, with a comment
// that names the instruction (encode.go).
//
// The contract of each function is that of its slot in the kernels types of the packages: the same
// roundings in the same order as the AVX2 form where that is stated, so that all processors give the
// same bits.
//
// # Where each part lives
//
//   - files.go: the list of generated files. function.go, emit.go, encode.go, memory.go: the assembler.
//   - math.go: exp, tanh and their kin, with the polynomials of ../simd/math.go.
//   - gemm.go, pack.go, pointwise.go, recurrent.go, reduce.go, lookup.go, window.go, maxpool.go,
//     channels_last.go, winograd.go: kernels of package simd.
//   - chacha.go, boxmuller.go, rounded.go: kernels of package random. gram.go: of package gram.
//     lattice_*.go: of package lattice.
package neon
