// Package simd holds the arithmetic that the CPU kernels are made of: the
// matrix product, elementwise functions, reductions, and the copies that
// convolution and pooling need, all in float32.
//
// Every function has a pure-Go form and forms in assembly: on amd64 for AVX2
// with FMA and for AVX-512, on arm64 for NEON. The fastest that the processor
// runs is chosen once, at start. Build with -tags noasm to have pure Go alone.
//
// Results are a function of the values alone. The order in which a sum is taken
// depends on its length, never on alignment, on neighbouring rows or columns,
// or on how work is shared among threads.
//
// Slices that are too short for the shape given are a mistake of the calling
// program and panic, as an index out of range does. Nothing here allocates,
// except where a doc comment says so.
package simd

//go:generate sh -c "cd avo && go run . -out .."
//go:generate go run ./neon -root ../..
