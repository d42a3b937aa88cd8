// CUDA's short vectors, with CUDA's alignments: a float4 at an address that is not a
// multiple of 16 is an error here, too.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define __device__
#define __host__
#define __global__
#define __constant__ const
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) alignas(n)
#define __launch_bounds__(...)

// A kernel is compiled inside an unnamed namespace of its file. cuda/internal/emu/build finds
// these words in the preprocessed source and registers the kernel by name.
typedef void emu_kernel;
#define KERNEL static emu_kernel
#define LAUNCH_BOUNDS(...) [[emu::launch_bounds(__VA_ARGS__)]]

#define EMU_VECTOR(T, name, a2, a3, a4)                                                    \
	struct alignas(a2) name##2 { T x, y; };                                                \
	struct alignas(a3) name##3 { T x, y, z; };                                             \
	struct alignas(a4) name##4 { T x, y, z, w; };                                          \
	inline name##2 make_##name##2(T x, T y) { return name##2{x, y}; }                      \
	inline name##3 make_##name##3(T x, T y, T z) { return name##3{x, y, z}; }              \
	inline name##4 make_##name##4(T x, T y, T z, T w) { return name##4{x, y, z, w}; }

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
EMU_VECTOR(signed char, char, 2, 1, 4)
EMU_VECTOR(unsigned char, uchar, 2, 1, 4)
EMU_VECTOR(short, short, 4, 2, 8)
EMU_VECTOR(unsigned short, ushort, 4, 2, 8)
EMU_VECTOR(int, int, 8, 4, 16)
EMU_VECTOR(unsigned, uint, 8, 4, 16)
EMU_VECTOR(long long, longlong, 16, 8, 16)
EMU_VECTOR(unsigned long long, ulonglong, 16, 8, 16)
EMU_VECTOR(float, float, 8, 4, 16)
EMU_VECTOR(double, double, 16, 8, 16)
