// Faults of arithmetic, and results that depend on who comes first.
#include "device.h"

template <bool mended> __device__ void big_index(float *y, const float *x, int n) {
	int i = blockIdx.x * 256 + threadIdx.x;
	long long square = mended ? (long long)(i + 46341) * (i + 46341) : (i + 46341) * (i + 46341);
	y[i] = x[i] + float(square);
}
KERNEL LAUNCH_BOUNDS(256) index_overflow(float *y, const float *x, int n) { big_index<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) index_overflow_mended(float *y, const float *x, int n) { big_index<true>(y, x, n); }

template <bool mended> __device__ void divide_by(float *y, const float *x, int n) {
	int i = blockIdx.x * 256 + threadIdx.x;
	y[i] = float(i / (mended ? max(int(x[i]), 1) : int(x[i])));
}
KERNEL LAUNCH_BOUNDS(256) integer_division_by_zero(float *y, const float *x, int n) { divide_by<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) integer_division_by_zero_mended(float *y, const float *x, int n) { divide_by<true>(y, x, n); }

template <bool mended> __device__ void give_up(float *y, const float *x, int n) {
	int i = blockIdx.x * 256 + threadIdx.x;
	if (!mended && x[i] > 3) __trap();
	y[i] = x[i];
}
KERNEL LAUNCH_BOUNDS(256) trapped(float *y, const float *x, int n) { give_up<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) trapped_mended(float *y, const float *x, int n) { give_up<true>(y, x, n); }

// Hands out places in the order of arrival: no error, but other bits in another order.
template <bool mended> __device__ void arrive(float *y, const float *x, int n) {
	SHARED(unsigned, arrived, 1);
	int i = blockIdx.x * 256 + threadIdx.x;
	if (threadIdx.x == 0) arrived[0] = 0;
	__syncthreads();
	unsigned place = atomicAdd(&arrived[0], 1u);
	y[i] = x[i] + float(mended ? threadIdx.x : place);
}
KERNEL LAUNCH_BOUNDS(256) order_of_arrival(float *y, const float *x, int n) { arrive<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) order_of_arrival_mended(float *y, const float *x, int n) { arrive<true>(y, x, n); }
