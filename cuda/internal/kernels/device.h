// Definitions that every kernel includes. They differ between the two compilers.
//
// NVRTC compiles a kernel for a GPU and has no standard headers. g++ compiles the same
// source for the emulated device (cuda/internal/emu), where EMULATED is defined and a thread is a
// fibre. A kernel is plain CUDA C++ except for these macros:
//
//    KERNEL LAUNCH_BOUNDS(256) name(float *y, const float *x, int n) { ... }
//    SHARED(float, tile, 32 * 33);   // static shared memory, one-dimensional
//
// An element of a SHARED array is read into a variable of an explicit type (never auto)
// and written by assignment. The array is passed to a function as a template parameter,
//    template <class S> __device__ float sum(S &s, int n)
// and its address is taken only for an integer atomic (atomicAdd(&s[i], 1)). load4 and
// store4 move four floats at once.
#pragma once

#ifdef __CUDACC__

#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#ifndef FLT_MAX
#define FLT_MAX 3.402823466e+38f
#endif
#ifndef FLT_MIN
#define FLT_MIN 1.175494351e-38f
#endif

#define KERNEL extern "C" __global__ void
#define LAUNCH_BOUNDS(...) __launch_bounds__(__VA_ARGS__)
#define SHARED(type, name, count) __shared__ __align__(16) type name[count]

// load4 and load2 access four and two neighbours of a SHARED float array at once; i is a
// multiple of four or two.
template <class S> __device__ __forceinline__ float4 load4(S &s, int i) { return *reinterpret_cast<const float4 *>(&s[i]); }
template <class S> __device__ __forceinline__ float2 load2(S &s, int i) { return *reinterpret_cast<const float2 *>(&s[i]); }
template <class S> __device__ __forceinline__ void store4(S &s, int i, float4 v) { *reinterpret_cast<float4 *>(&s[i]) = v; }
template <class S> __device__ __forceinline__ void store2(S &s, int i, float2 v) { *reinterpret_cast<float2 *>(&s[i]) = v; }

#else

#define EMULATED 1
#include "../emu/vectors.h"
#include "../emu/arithmetic.h"
#include "../emu/thread.h"
#include "../emu/atomics.h"
#include "../emu/shared.h"
#include "../emu/bytes.h"
#include "../emu/tensor.h"

#endif

// VARIED_BOUNDS are the launch bounds of a kernel of which only a card can tell whether it is
// faster with more blocks on a multiprocessor and fewer registers, or with all the registers
// that the compiler wants. -DMORE_BLOCKS compiles it in the first way, for a second archive.
// Both ways compute the same bits.
#ifdef MORE_BLOCKS
#define VARIED_BOUNDS(threads, blocks) LAUNCH_BOUNDS(threads, blocks)
#else
#define VARIED_BOUNDS(threads, blocks) LAUNCH_BOUNDS(threads)
#endif

// bf16 is the upper half of a float, rounded to nearest, ties to even, as
// cvt.rn.bf16.f32 does; every NaN becomes 0x7fff.
__device__ __forceinline__ uint16_t to_bf16(float x) {
	uint32_t u = __float_as_uint(x);
	if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
	return uint16_t((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

__device__ __forceinline__ float from_bf16(uint16_t b) { return __uint_as_float(uint32_t(b) << 16); }

// tf32 keeps ten bits of the mantissa, rounded to nearest, ties away from zero, as
// cvt.rna does.
__device__ __forceinline__ float to_tf32(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	uint32_t r;
	asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
	return __uint_as_float(r);
#else
	uint32_t u = __float_as_uint(x);
	if ((u & 0x7fffffffu) > 0x7f800000u) return __uint_as_float(0x7fffffffu);
	return __uint_as_float((u + 0x1000u) & ~0x1fffu);
#endif
}
