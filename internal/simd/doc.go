// Package simd contains the arithmetic of the CPU kernels: the matrix product,
// elementwise functions, reductions, and the copies that convolution and pooling need,
// all in float32.
//
// Every function has a pure-Go implementation and assembly implementations: AVX2 with FMA
// and AVX-512 on amd64, NEON on arm64. The fastest one that the processor supports is
// chosen once, at start. The build tag noasm leaves pure Go only.
//
// A result depends on the values alone. The order of a sum depends on its length, never on
// alignment, on neighbouring rows or columns, or on how threads share the work.
//
// A slice that is too short for the stated shape is a bug of the caller and panics, like an
// index out of range. Functions do not allocate unless their doc comment states it.
package simd

//go:generate sh -c "cd avo && go run . -out .."
//go:generate go run ./neon -root ../..
