// Matrix instructions of a warp with sums in float32, on tensor cores.
#pragma once
#include "device.h"

// How products are computed: in float32, or on tensor cores from operands that are
// rounded to TF32 or bfloat16. depth is the number of elements of k in a step, pack that
// in a word.
struct FP32 {};
struct TF32 {
	static constexpr int depth = 16, pack = 1;
};
struct BF16 {
	static constexpr int depth = 32, pack = 2;
};

#if defined(EMULATED) || __CUDA_ARCH__ >= 800

// FragmentA is a thread's elements of the left operand of one instruction: words lane%4
// and lane%4+4 in k of rows lane/4 and lane/4+8. FragmentB is the same for column lane/4
// of the right operand.
struct FragmentA {
	float top, bottom, top4, bottom4;
};
struct FragmentB {
	float word, word4;
};

// mma adds a product of 16 rows and 8 columns, 8 words deep. This thread's sums are rows
// lane/4 and lane/4+8, columns 2·(lane%4) and 2·(lane%4)+1.
#ifdef EMULATED

#define MMA(halves, number)                                                                                          \
	emu::multiply_16x8<halves>(sum, {__float_as_uint(a.top), __float_as_uint(a.bottom), __float_as_uint(a.top4),     \
		__float_as_uint(a.bottom4), __float_as_uint(b.word), __float_as_uint(b.word4)}, number)

__device__ inline void mma(TF32, float (&sum)[4], const FragmentA &a, const FragmentB &b) { MMA(1, emu::number_of_tf32); }
__device__ inline void mma(BF16, float (&sum)[4], const FragmentA &a, const FragmentB &b) { MMA(2, emu::half_of); }

__device__ inline float pack_bf16(float low, float high) {
	return __uint_as_float(to_bf16(low) | uint32_t(to_bf16(high)) << 16);
}

#else

// Volatile: all lanes take part, so the compiler must not move it into divergent code.
#define MMA(shape)                                                                                                   \
	asm volatile("mma.sync.aligned." shape " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                  \
		: "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])                                                     \
		: "r"(__float_as_uint(a.top)), "r"(__float_as_uint(a.bottom)), "r"(__float_as_uint(a.top4)),                 \
		"r"(__float_as_uint(a.bottom4)), "r"(__float_as_uint(b.word)), "r"(__float_as_uint(b.word4)))

__device__ __forceinline__ void mma(TF32, float (&sum)[4], const FragmentA &a, const FragmentB &b) {
	MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
}
__device__ __forceinline__ void mma(BF16, float (&sum)[4], const FragmentA &a, const FragmentB &b) {
	MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
}

__device__ __forceinline__ float pack_bf16(float low, float high) {
	uint32_t both;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
	return __uint_as_float(both);
}

#endif

// TensorSum is 16 by 8 sums of a warp, those of mma. left and right turn what a thread has of the
// float32 or packed operands into operands of add.
template <class Math> struct TensorSum {
	using A = FragmentA;
	using B = FragmentB;
	float sum[4] = {};

	__device__ __forceinline__ static A left(const FragmentA &a) { return a; }
	__device__ __forceinline__ static B right(const FragmentB &b) { return b; }
	__device__ __forceinline__ void add(const A &a, const B &b) { mma(Math{}, sum, a, b); }
	__device__ __forceinline__ float of(int i) const { return sum[i]; }
};

#endif
