// Faults of synchronisation within a block. Each kernel has one; its twin, with the name
// that ends in _mended, differs in that alone. All take n numbers x and give n numbers y,
// from blocks of 256 threads, one number each.
#include "device.h"

// Reads what another warp wrote.
template <bool mended> __device__ void shift(float *y, const float *x, int n) {
	SHARED(float, tile, 256);
	int i = blockIdx.x * 256 + threadIdx.x;
	tile[threadIdx.x] = i < n ? x[i] : 0;
	if (mended) __syncthreads();
	if (i < n) y[i] = tile[(threadIdx.x + 40) % 256];
}
KERNEL LAUNCH_BOUNDS(256) missing_barrier(float *y, const float *x, int n) { shift<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) missing_barrier_mended(float *y, const float *x, int n) { shift<true>(y, x, n); }

// Overwrites what another warp may not have read yet.
template <bool mended> __device__ void turn(float *y, const float *x, int n) {
	SHARED(float, tile, 256);
	int i = blockIdx.x * 256 + threadIdx.x;
	float sum = 0;
	for (int round = 0; round < 3; round++) {
		tile[threadIdx.x] = i < n ? x[i] + round : 0;
		__syncthreads();
		sum += tile[255 - threadIdx.x];
		if (mended) __syncthreads();
	}
	if (i < n) y[i] = sum;
}
KERNEL LAUNCH_BOUNDS(256) missing_second_barrier(float *y, const float *x, int n) { turn<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) missing_second_barrier_mended(float *y, const float *x, int n) { turn<true>(y, x, n); }

// Only some threads come to the barrier.
template <bool mended> __device__ void some_return(float *y, const float *x, int n) {
	SHARED(float, first, 1);
	int i = blockIdx.x * 256 + threadIdx.x;
	if (threadIdx.x == 0) first[0] = x[i];
	if (!mended && threadIdx.x >= 200) return;
	__syncthreads();
	y[i] = first[0];
}
KERNEL LAUNCH_BOUNDS(256) divergent_barrier(float *y, const float *x, int n) { some_return<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) divergent_barrier_mended(float *y, const float *x, int n) { some_return<true>(y, x, n); }

// All come to a barrier, but not to the same one.
template <bool mended> __device__ void two_barriers(float *y, const float *x, int n) {
	int i = blockIdx.x * 256 + threadIdx.x;
	if (mended || threadIdx.x % 2 == 0) {
		__syncthreads();
	} else {
		__syncthreads();
	}
	y[i] = x[i];
}
KERNEL LAUNCH_BOUNDS(256) separate_barriers(float *y, const float *x, int n) { two_barriers<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) separate_barriers_mended(float *y, const float *x, int n) { two_barriers<true>(y, x, n); }
