// A team is the group of threads that processes one row: a warp for short rows, a block
// for long rows; where neighbouring elements belong to different rows, one thread, or a
// column of a block's threads. Each thread has a rank in the team, and a team can add up
// over its threads. Only the length of a row selects its team (launchPerRow in
// normalize.go), so a row has the same bits in every position.
#pragma once
#include "reduce.h"

struct Warp {
	int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, rank = threadIdx.x % 32, size = 32;

	template <class T> __device__ T sum(T x) const { return warp_sum(x); }
	template <class T> __device__ T max(T x) const { return warp_max(x); }
};

// Block needs shared memory for 32 doubles.
template <class S> struct Block {
	S &partial;
	int row = blockIdx.x, rank = threadIdx.x, size = blockDim.x;

	__device__ Block(S &partial) : partial(partial) {}
	__device__ double sum(double x) const { return block_sum(partial, x); }
	__device__ float max(float x) const { return (float)block_max(partial, (double)x); }
};

// Column is the team of the threads with the same lane in a block's warps, so that a warp
// reads 32 neighbouring rows. It needs shared memory for one double per thread.
template <class S> struct Column {
	S &partial;
	int row = blockIdx.x * 32 + threadIdx.x % 32, rank = threadIdx.x / 32, size = blockDim.x / 32;

	__device__ Column(S &partial) : partial(partial) {}

	template <class F> __device__ double fold(double x, F f) const {
		partial[threadIdx.x] = x;
		__syncthreads();
		double all = partial[threadIdx.x % 32];
		for (int i = 1; i < size; i++) {
			double next = partial[32 * i + threadIdx.x % 32];
			all = f(all, next);
		}
		__syncthreads();
		return all;
	}
	__device__ double sum(double x) const {
		return fold(x, [](double a, double b) { return a + b; });
	}
	__device__ float max(float x) const {
		return (float)fold(x, [](double a, double b) { return maximum(a, b); });
	}
};

// SingleThread processes a row by itself.
struct SingleThread {
	int row = blockIdx.x * blockDim.x + threadIdx.x, rank = 0, size = 1;

	template <class T> __device__ T sum(T x) const { return x; }
	template <class T> __device__ T max(T x) const { return x; }
};
