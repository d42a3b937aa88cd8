// Sums of products of floats as tensor cores compute them, for mma with sums in float32. An
// instruction adds its products in blocks: the terms of a block, which are its exact products and the
// sum so far, are aligned to the largest exponent among them and truncated, and so is their sum (Fasi,
// Higham, Mikaitis and Pranesh 2021, "Numerical behavior of NVIDIA tensor cores", PeerJ Computer
// Science 7:e330). Khattak and Mikaitis 2025, "Accurate models of NVIDIA tensor cores",
// arXiv:2512.07004, find blocks of 4 products of TF32 numbers and one more bit on an A100, 8 products
// and two more bits on an H100 and a B200. The emulated device has blocks of 4 and no more bits, as a
// V100: the most that a sum can lose is more than on these.
#pragma once
#include <math.h>
#include "thread.h"

namespace emu {

constexpr int block_products = 4;

// add_block returns the sum of a block.
inline float add_block(float sum, const float (&left)[block_products], const float (&right)[block_products]) {
	double terms[block_products + 1] = {sum}, largest = fabs(terms[0]), all = terms[0];
	for (int i = 0; i < block_products; i++) {
		terms[i + 1] = double(left[i]) * right[i];
		largest = fmax(largest, fabs(terms[i + 1]));
		all += terms[i + 1];
	}
	if (!(fabs(all) < INFINITY) || largest == 0) return float(all);
	int exponent;  // largest < 2^exponent
	frexp(largest, &exponent);
	int last = exponent - 24;  // exponent of the last bit that is kept
	if (last < -149) last = -149;
	const double scale = ldexp(1, -last);
	long long kept = 0;
	for (double t : terms) kept += (long long)(t * scale);
	for (; kept <= -(1 << 24) || kept >= 1 << 24; last++) kept /= 2;
	return float(ldexp(double(kept), last));
}

// number_of_tf32 and half_of return a number of a word of the operands.
inline float float_of(uint32_t bits) {
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}
inline float number_of_tf32(uint32_t word, int) { return float_of(word & 0xffffe000); }
inline float half_of(uint32_t word, int half) { return float_of(half ? word & 0xffff0000 : word << 16); }

// multiply_16x8 is m16n8k8 with TF32 numbers and m16n8k16 with bfloat16 numbers, two in a word. Along
// k there are eight words; lane i%4 has words i%4 and i%4+4. A lane passes words of the rows lane/4
// and lane/4+8 of A, first both of one k, and of column lane/4 of B. Its sums are those of rows lane/4
// and lane/4+8, each with columns 2·(lane%4) and 2·(lane%4)+1.
template <int halves>
void multiply_16x8(float (&sum)[4], const uint32_t (&words)[6], float (*number)(uint32_t, int), EMU_HERE) {
	uint32_t(*all)[6] = operands<uint32_t, 6>();
	const int me = lane();
	memcpy(all[me], words, sizeof words);
	sync_warp(0xffffffff, EMU_SITE);
	for (int i = 0; i < 4; i++) {
		const int row = me / 4 * 4, column = (me % 4 * 2 + i % 2) * 4;
		float left[block_products], right[block_products];
		for (int n = 0; n < 8 * halves; n++) {
			const int k = n / halves, half = n % halves;
			left[n % block_products] = number(all[row + k % 4][k / 4 * 2 + i / 2], half);
			right[n % block_products] = number(all[column + k % 4][4 + k / 4], half);
			if (n % block_products == block_products - 1) sum[i] = add_block(sum[i], left, right);
		}
	}
	sync_warp(0xffffffff, EMU_SITE);
}

}  // namespace emu
