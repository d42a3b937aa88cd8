// Sums of squares over a block of threads, in double.
#pragma once
#include "device.h"
#include "reduce.h"

// squares adds up the squares of n numbers over a block. The order depends only on n and
// the size of the block.
template <class S> __device__ __forceinline__ double squares(S &partial, const float *x, int n) {
	const int step = blockDim.x;
	double sum = 0;
	for (int i = threadIdx.x; i < n; i += 8 * step) {
		float v[8];  // loads in flight
#pragma unroll
		for (int j = 0; j < 8; j++)
			v[j] = i + j * step < n ? x[i + j * step] : 0;
#pragma unroll
		for (int j = 0; j < 8; j++)
			sum = fma((double)v[j], (double)v[j], sum);
	}
	return block_sum(partial, sum);
}
