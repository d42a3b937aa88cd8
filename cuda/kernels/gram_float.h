// Inner products of Gram matrices in float, and bounds on their rounding errors: see
// gram.cu.
#pragma once
#include "gram.h"

// Whole adds up the slices of a tile.
template <class T> struct Whole {
	float (&all)[T::high][T::wide];

	__device__ __forceinline__ void operator()(const float (&sum)[T::high][T::wide], bool first, bool) const {
#pragma unroll
		for (int r = 0; r < T::high; r++)
#pragma unroll
			for (int c = 0; c < T::wide; c++)
				all[r][c] = first ? sum[r][c] : all[r][c] + sum[r][c];
	}
};

// Results of a block and of a record: the inner product, the sum of squares of AAᵀ, that
// of ΔΔᵀ, and the two traces.
constexpr int gram_sums = 5;

template <class T, class A, class D>
__device__ __forceinline__ void inner_float(const Gram<float> &g, const A &a, const D &delta, int pair, int na, int nd) {
	static_assert(T::rows == T::columns, "tiles are square");
	SHARED(float, left, T::left);
	SHARED(float, right, T::right);
	SHARED(double, partial, 32);
	const Pair at(pair);
	const int m = at.down * T::rows, n = at.across * T::rows;
	float x[T::high][T::wide], y[T::high][T::wide];
	slices<T>(left, right, a, a, m, n, 0, na, g.slice, Whole<T>{x});
	float *signals = g.signals + (long long)blockIdx.x * (T::rows * T::rows) + threadIdx.x;
	if (!g.known) slices<T>(left, right, delta, delta, m, n, 0, nd, g.slice, Whole<T>{y});
	if (g.signals)
#pragma unroll
		for (int e = 0; e < T::high * T::wide; e++) {
			float &v = y[e / T::wide][e % T::wide];
			if (g.known)
				v = signals[e * T::threads];
			else
				signals[e * T::threads] = v;
		}
	const Seat<T> seat;
	float total = 0, squares_a = 0, squares_d = 0, trace_a = 0, trace_d = 0;
#pragma unroll
	for (int r = 0; r < T::high; r++)
#pragma unroll
		for (int c = 0; c < T::wide; c++) {
			const float u = x[r][c], v = y[r][c];
			total = fmaf(u, v, total);
			squares_a = fmaf(u, u, squares_a);
			squares_d = fmaf(v, v, squares_d);
			if (m == n && seat.y + seat.down(r) == seat.x + seat.along(c / 4) + c % 4) trace_a += u, trace_d += v;
		}
	const float sums[gram_sums] = {total, squares_a, squares_d, trace_a, trace_d};
	const double times = m == n ? 1 : 2;  // the symmetric pair above the diagonal has no block
#pragma unroll
	for (int i = 0; i < gram_sums; i++) {
		double sum = block_sum(partial, times * sums[i]);
		if (threadIdx.x == 0) g.partial[gram_sums * (long long)blockIdx.x + i] = sum;
	}
}
