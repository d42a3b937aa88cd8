// Sums and maxima over the lanes of a warp and over the threads of a block. All threads
// call, and all get the result. The order depends only on the threads' positions: the
// same values in the same positions give the same bits.
#pragma once

// maximum is the larger number; if one is NaN, the result is NaN.
template <class T> __device__ __forceinline__ T maximum(T a, T b) { return a != a || a >= b ? a : b; }

// warp_sum adds up over groups of width neighbouring lanes, a power of two. In a
// butterfly both partners add the same two numbers, so all lanes get the same result.
template <int width = 32, class T> __device__ __forceinline__ T warp_sum(T x) {
#pragma unroll
	for (int step = width / 2; step > 0; step /= 2)
		x += __shfl_xor_sync(0xffffffff, x, step);
	return x;
}

template <int width = 32, class T> __device__ __forceinline__ T warp_max(T x) {
#pragma unroll
	for (int step = width / 2; step > 0; step /= 2)
		x = maximum(x, __shfl_xor_sync(0xffffffff, x, step));
	return x;
}

// block_sum adds up over a one-dimensional block of whole warps. partial is shared
// memory for 32 values of type T; it is free for the next reduction when this returns.
template <class S, class T> __device__ __forceinline__ T block_sum(S &partial, T x) {
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
	x = warp_sum(x);
	if (lane == 0)
		partial[warp] = x;
	__syncthreads();
	x = warp_sum(lane < warps ? T(partial[lane]) : T(0));
	__syncthreads();
	return x;
}

template <class S, class T> __device__ __forceinline__ T block_max(S &partial, T x) {
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
	x = warp_max(x);
	if (lane == 0)
		partial[warp] = x;
	__syncthreads();
	x = warp_max(T(partial[lane < warps ? lane : 0]));
	__syncthreads();
	return x;
}
