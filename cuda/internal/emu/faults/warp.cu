// Faults of synchronisation within a warp.
#include "device.h"

// Reads what another lane wrote.
template <bool mended> __device__ void swap(float *y, const float *x, int n) {
	SHARED(float, tile, 256);
	int i = blockIdx.x * 256 + threadIdx.x;
	tile[threadIdx.x] = x[i];
	if (mended) __syncwarp();
	y[i] = tile[threadIdx.x ^ 1];
}
KERNEL LAUNCH_BOUNDS(256) missing_syncwarp(float *y, const float *x, int n) { swap<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) missing_syncwarp_mended(float *y, const float *x, int n) { swap<true>(y, x, n); }

// A shuffle orders no memory.
template <bool mended> __device__ void swap_after_shuffle(float *y, const float *x, int n) {
	SHARED(float, tile, 256);
	int i = blockIdx.x * 256 + threadIdx.x;
	tile[threadIdx.x] = x[i];
	float other = __shfl_xor_sync(0xffffffff, x[i], 1);
	if (mended) __syncwarp();
	float same = tile[threadIdx.x ^ 1];
	y[i] = other + same;
}
KERNEL LAUNCH_BOUNDS(256) shuffle_as_barrier(float *y, const float *x, int n) { swap_after_shuffle<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) shuffle_as_barrier_mended(float *y, const float *x, int n) { swap_after_shuffle<true>(y, x, n); }

// Names lanes that do not come.
template <bool mended> __device__ void sum_of_some(float *y, const float *x, int n) {
	int i = blockIdx.x * 256 + threadIdx.x;
	float v = x[i];
	if (mended || threadIdx.x % 32 < 16) v += __shfl_xor_sync(0xffffffff, v, 1);
	y[i] = v;
}
KERNEL LAUNCH_BOUNDS(256) inactive_lane(float *y, const float *x, int n) { sum_of_some<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) inactive_lane_mended(float *y, const float *x, int n) { sum_of_some<true>(y, x, n); }

// Comes without being named.
template <bool mended> __device__ void vote_of_half(float *y, const float *x, int n) {
	int i = blockIdx.x * 256 + threadIdx.x;
	y[i] = float(__popc(__ballot_sync(mended ? 0xffffffff : 0x0000ffff, x[i] > 0)));
}
KERNEL LAUNCH_BOUNDS(256) unnamed_lane(float *y, const float *x, int n) { vote_of_half<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) unnamed_lane_mended(float *y, const float *x, int n) { vote_of_half<true>(y, x, n); }
