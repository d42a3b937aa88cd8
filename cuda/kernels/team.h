// A team is the threads that go over one row together: a warp where rows are short,
// a block where they are long; where neighbouring elements are of different rows, a
// thread alone or a column of a block's threads. Each has a rank in a team of a
// size, and adds up over the team. Which team serves a row depends on its length
// alone (teams in normalize.go), so a row gives the same bits wherever it stands.
#pragma once
#include "reduce.h"

struct Warp {
	int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, rank = threadIdx.x % 32, size = 32;

	template <class T> __device__ T sum(T x) const { return warp_sum(x); }
	template <class T> __device__ T max(T x) const { return warp_max(x); }
};

// Block has shared memory of 32 doubles for its sums.
template <class S> struct Block {
	S &partial;
	int row = blockIdx.x, rank = threadIdx.x, size = blockDim.x;

	__device__ Block(S &partial) : partial(partial) {}
	__device__ double sum(double x) const { return block_sum(partial, x); }
	__device__ float max(float x) const { return (float)block_max(partial, (double)x); }
};

// Column is a place in each of a block's warps, so that a warp reads 32 rows side by
// side. It has shared memory of a double for every thread.
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

struct Alone {
	int row = blockIdx.x * blockDim.x + threadIdx.x, rank = 0, size = 1;

	template <class T> __device__ T sum(T x) const { return x; }
	template <class T> __device__ T max(T x) const { return x; }
};
