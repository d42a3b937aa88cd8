// Products of float32 matrices on tensor cores, from operands that are split in two TF32 numbers,
// with a bound on the error (Henry, Tang and Heinecke 2019, "Leveraging the bfloat16 artificial
// intelligence datatype for higher-precision computations"; Ootomo and Yokota 2022, "Recovering single
// precision accuracy from tensor cores").
//
// An operand x is high + low + rest: high is x rounded to TF32, low is x − high rounded to TF32. x·y
// is computed as high·high, in one sum, and high·low + low·high, in another. The two sums are added
// in float32 at the end of a slice.
//
// Bound. Let u = 2⁻²⁴, and let S be the sum of |x·y| over the n terms of a slice. The result of the
// slice has an error of at most
//
//	25·(⌈n/8⌉ + 1)·u·S
//
// besides underflow, if n is at most 2¹⁷ and k advances in steps of 16.
//
//  1. Splitting. In units of the last place of x, x − high is an integer of at most 2¹², which is at
//     most 2⁻¹¹·|x|. So it is exact in float32, and its rounding to 11 bits leaves a rest of at most
//     one unit, 2⁻²³·|x|. The products that are left out, low·low, rest·y and x·rest, are at most
//     (2⁻²² + 2·2⁻²³)·|x·y| and a thousandth of it, 8.1·u·|x·y|.
//  2. Tensor cores add exact products in blocks. The terms of a block, which are its products and the
//     sum so far, are aligned to the largest exponent 2^e among them and truncated to multiples of
//     2^(e−23) or finer, and so is their sum. (See emu/tensor.h for the sources. Blocks have 4 or 8
//     products; the bound assumes at least 2.) The largest term has at most 24 bits and stays exact. So
//     a block with j products other than 0 truncates at most j terms and one sum, each by at most
//     2u·M, where M is larger than every term and every sum. A step of 16 has at most 8 such blocks;
//     n products have at most n/2 + 7.5. Together they err by at most 2u·M·(n + n/2 + 7.5) =
//     (3n + 15)·u·M. M is at most 1.001·(1 + g)·S, where g·S is the error of a sum so far.
//  3. The sum of high·low + low·high has twice as many terms, at most 2⁻¹⁰·M together. It errs by at
//     most 2⁻⁹·(3n + 15)·u·M.
//  4. Adding both sums is one rounding, at most 1.002·u·M.
//
// With g ≤ 0.025, which follows for n ≤ 2¹⁷, these are at most (3.09n + 24.6)·u·S, and the bound is at
// least (3.125n + 25)·u·S.
//
// Underflow. Tensor cores may replace numbers below h = 2⁻¹²⁶ by 0: operands, products and sums. This
// adds an error of at most h·Σ(2|x| + 2|y| + 5).
//
// An operand that is not finite, or rounds to infinity, gives NaN.
#pragma once
#include "mma.h"

// The architectures on which three products of TF32 numbers take less time than one of float32:
// splitsOperandsOn in gram.go. Kernels for others contain no code that splits.
#if defined(EMULATED) || __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000
#define SPLITS_OPERANDS 1
#endif

struct SplitTF32 {
	static constexpr int depth = 16, pack = 1;
};

#ifdef SPLITS_OPERANDS

struct SplitA {
	FragmentA high, low;
};
struct SplitB {
	FragmentB high, low;
};

__device__ __forceinline__ void split(float x, float &high, float &low) {
	high = to_tf32(x);
	low = to_tf32(x - high);
}

__device__ __forceinline__ SplitA split(const FragmentA &a) {
	SplitA s;
	split(a.top, s.high.top, s.low.top);
	split(a.bottom, s.high.bottom, s.low.bottom);
	split(a.top4, s.high.top4, s.low.top4);
	split(a.bottom4, s.high.bottom4, s.low.bottom4);
	return s;
}

__device__ __forceinline__ SplitB split(const FragmentB &b) {
	SplitB s;
	split(b.word, s.high.word, s.low.word);
	split(b.word4, s.high.word4, s.low.word4);
	return s;
}

template <> struct TensorSum<SplitTF32> {
	using A = SplitA;
	using B = SplitB;
	float large[4] = {}, small[4] = {};

	__device__ __forceinline__ static A left(const FragmentA &a) { return split(a); }
	__device__ __forceinline__ static B right(const FragmentB &b) { return split(b); }
	__device__ __forceinline__ void add(const A &a, const B &b) {
		mma(TF32{}, small, a.high, b.low);
		mma(TF32{}, small, a.low, b.high);
		mma(TF32{}, large, a.high, b.high);
	}
	__device__ __forceinline__ float of(int i) const { return large[i] + small[i]; }
};

#endif
