// Sums of squares over a block of threads, in double.
#pragma once
#include "device.h"
#include "reduce.h"

// squares adds up the squares of n numbers over the first threads of a block, as a block of
// only these threads would. The order depends only on n and the number of threads.
template <class S> __device__ __forceinline__ double squares(S &partial, const float *x, int n, int threads) {
	const int first = threadIdx.x, step = threads;
	double sum = 0;
	for (int i = first < threads ? first : n; i < n; i += 8 * step) {
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

template <class S> __device__ __forceinline__ double squares(S &partial, const float *x, int n) { return squares(partial, x, n, blockDim.x); }
