// Rows of a table that indices name.
#pragma once
#include "lattice.h"

// table_row converts a number to the index of one of n table rows; −1 if it is none.
__device__ __forceinline__ int table_row(float v, int n) {
	if (!(v >= 0 && v < (float)n)) return -1;
	int i = (int)v;
	return (float)i == v && i < n ? i : -1;
}

// round_table_row rounds a row of Δ to integers, by a warp, and returns its squared norm, to all lanes:
// more than the square of the bound if an element is out of range.
__device__ __forceinline__ uint64_t round_table_row(int *rounded, const float *delta, int dim, float scale, uint64_t key) {
	const RoundingWords words(key);
	uint64_t sum = 0;
	for (int j = threadIdx.x % 32; j < dim; j += 32) {
		const float d = scale == 0 ? 0.0f : dither(delta[j], scale, words.of(j));
		add_square(sum, d);
		rounded[j] = fabsf(d) <= (float)lattice_bound + 0.5f ? __float2int_rn(d) : 0;
	}
	return warp_sum(sum);
}
