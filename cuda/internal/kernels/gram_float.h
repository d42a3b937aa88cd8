// Inner products of Gram matrices in float, and bounds on their rounding errors: see
// gram.cu.
#pragma once
#include "gram.h"

// SliceSum adds up the sums of a tile's slices.
template <class T> struct SliceSum {
	float (&total)[T::thread_rows][T::thread_columns];

	__device__ __forceinline__ void operator()(const float (&sum)[T::thread_rows][T::thread_columns], bool first, bool) const {
#pragma unroll
		for (int r = 0; r < T::thread_rows; r++)
#pragma unroll
			for (int c = 0; c < T::thread_columns; c++)
				total[r][c] = first ? sum[r][c] : total[r][c] + sum[r][c];
	}
};

template <class T, class A, class D>
__device__ __forceinline__ void inner_product_float(const Gram<float> &g, const A &a, const D &delta, long long block, int na, int nd) {
	static_assert(T::rows == T::columns, "tiles are square");
	SHARED(float, left, T::left_floats);
	SHARED(float, right, T::right_floats);
	SHARED(double, partial, 32);
	const TilePair at(block % g.pairs);
	const int m = at.row * T::rows, n = at.column * T::rows;
	float x[T::thread_rows][T::thread_columns], y[T::thread_rows][T::thread_columns];
	multiply_slices<T>(left, right, a, a, m, n, 0, na, g.slice, SliceSum<T>{x});
	float *signals = g.signals + block * (T::rows * T::rows) + threadIdx.x;
	if (!g.signals_stored) multiply_slices<T>(left, right, delta, delta, m, n, 0, nd, g.slice, SliceSum<T>{y});
	if (g.signals)
#pragma unroll
		for (int e = 0; e < T::thread_rows * T::thread_columns; e++) {
			float &v = y[e / T::thread_columns][e % T::thread_columns];
			if (g.signals_stored)
				v = signals[e * T::threads];
			else
				signals[e * T::threads] = v;
		}
	const ThreadPosition<T> thread;
	float total = 0, squares_a = 0, squares_d = 0, trace_a = 0, trace_d = 0;
#pragma unroll
	for (int r = 0; r < T::thread_rows; r++)
#pragma unroll
		for (int c = 0; c < T::thread_columns; c++) {
			const float u = x[r][c], v = y[r][c];
			total = fmaf(u, v, total);
			squares_a = fmaf(u, u, squares_a);
			squares_d = fmaf(v, v, squares_d);
			if (m == n && thread.row + thread.row_offset(r) == thread.column + thread.column_offset(c / 4) + c % 4) trace_a += u, trace_d += v;
		}
	const float sums[gram_sums] = {total, squares_a, squares_d, trace_a, trace_d};
	const double multiplicity = m == n ? 1 : 2;  // the symmetric pair above the diagonal has no block
#pragma unroll
	for (int i = 0; i < gram_sums; i++) {
		double sum = block_sum(partial, multiplicity * sums[i]);
		if (threadIdx.x == 0) g.partial[gram_sums * block + i] = sum;
	}
}
