// Package lattice contains the kernels over integer vectors that an exact release needs:
// stochastic rounding of float32 rows to a lattice, exact squared norms, integer products and
// Gram matrices.
//
// A record contributes a vector of integers, lattice steps, to a release. Its norm is at most
// [Bound] steps, which is checked in integers and not derived from floating-point numbers. The
// sum over records is a sum of integers, so its bits do not depend on the order of the
// records, on the size of a microbatch or on the number of threads.
//
// Every function has a pure-Go implementation and assembly implementations: AVX2, AVX-512 and
// AVX-512 with VNNI on amd64, NEON on arm64. All implementations give the same bits for all
// inputs. The fastest one that the processor supports is chosen once, at start. The build tag
// noasm leaves pure Go only.
//
// A slice that is too short for the stated shape is a bug of the caller and panics, like an
// index out of range. Functions do not allocate unless their doc comment states it.
package lattice
