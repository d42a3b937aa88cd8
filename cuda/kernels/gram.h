// Inner products of Gram matrices in double, ⟨AAᵀ, ΔΔᵀ⟩. The rows are operands as tile.h
// defines them. See gram.cu.
#pragma once
#include "double.h"
#include "reduce.h"
#include "tile.h"

// Gram is the argument that all blocks of a grid share. A block computes one pair of
// tiles of a record's rows.
template <class Number> struct Gram {
	double *partial;     // results of every block
	Number *signals;     // ΔΔᵀ of every block, or null
	const int *doubted;  // records to compute, or null: all
	int known;           // signals is read, not written
	int rows, pairs;     // of a record
	int slice;           // in float: number of products that are added before their sum is added to a larger one

	__device__ __forceinline__ bool asked(int record) const { return !doubted || doubted[record]; }
};

// Pair is a block's two tiles. Pairs are numbered row by row: (0,0), (1,0), (1,1),
// (2,0), …
struct Pair {
	int down = 0, across;

	__device__ __forceinline__ Pair(int number) {
		while ((down + 1) * (down + 2) / 2 <= number)
			down++;
		across = number - down * (down + 1) / 2;
	}
};

// brought returns the four of a row's sixteen elements from k on that this quarter of
// the lanes loads: neighbours, or every fourth element if then neighbouring lanes read
// neighbouring memory.
template <class Rows> __device__ __forceinline__ float4 brought(const Rows &x, const typename Rows::Row &r, int k, int quarter) {
	if constexpr (Rows::reading == Reading::along)
		return x.four(r, k + 4 * quarter);
	else
		return make_float4(x.one(r, k + quarter), x.one(r, k + quarter + 4), x.one(r, k + quarter + 8), x.one(r, k + quarter + 12));
}

// grams adds the products of rows first+0…31 with rows second+0…31 of x to sum. Lanes
// are arranged as in double.h; i and j count rows by eights. limit is the number of j
// for each i.
template <class Rows>
__device__ __forceinline__ void grams(double (&sum)[4][4][2], const Rows &x, int first, int second, const int (&limit)[4], int n) {
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const bool same = first == second;
	typename Rows::Row left[4], right[4];
#pragma unroll
	for (int i = 0; i < 4; i++) {
		left[i] = x.row(first + 8 * i + lane / 4);
		right[i] = x.row(second + 8 * i + lane / 4);
	}
	float4 u[4], v[4], next_u[4], next_v[4];
	auto fetch = [&](int k) {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			next_u[i] = brought(x, left[i], k, lane % 4);
			next_v[i] = same ? next_u[i] : brought(x, right[i], k, lane % 4);
		}
	};
	fetch(16 * warp);
	for (int k = 16 * warp; k < n; k += 64) {
#pragma unroll
		for (int i = 0; i < 4; i++)
			u[i] = next_u[i], v[i] = next_v[i];
		if (k + 64 < n) fetch(k + 64);
#pragma unroll
		for (int c = 0; c < 4; c++) {
			double a[4], b[4];
#pragma unroll
			for (int i = 0; i < 4; i++) {
				a[i] = c == 0 ? u[i].x : c == 1 ? u[i].y : c == 2 ? u[i].z : u[i].w;
				b[i] = c == 0 ? v[i].x : c == 1 ? v[i].y : c == 2 ? v[i].z : v[i].w;
			}
#pragma unroll
			for (int i = 0; i < 4; i++)
#pragma unroll
				for (int j = 0; j < 4; j++)
					if (j < limit[i]) add_products(sum[i][j], a[i], b[j]);
		}
	}
}

// gather adds up the warps' sums. Each thread gets eight of the 1024, number 128·m +
// threadIdx.x.
template <class S> __device__ __forceinline__ void gather(double (&own)[8], S &sums, const double (&sum)[4][4][2]) {
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
	for (int e = 0; e < 32; e++)
		sums[warp * 1024 + e * 32 + lane] = sum[e / 8][e / 2 % 4][e % 2];
	__syncthreads();
#pragma unroll
	for (int m = 0; m < 8; m++) {
		own[m] = 0;
		for (int w = 0; w < 4; w++)
			own[m] += sums[w * 1024 + m * 128 + threadIdx.x];
	}
	__syncthreads();
}

// inner computes, for a block's tiles, the inner product, Σ‖a_t‖‖δ_t‖, and the sum of
// the two traces.
constexpr int gram_parts = 3;

template <class A, class D>
__device__ __forceinline__ void inner(const Gram<double> &g, const A &a, const D &delta, int pair, int na, int nd) {
	SHARED(double, sums, 4 * 1024);
	SHARED(double, partial, 32);
	const Pair at(pair);
	const int down = at.down, across = at.across;
	int limit[4];
#pragma unroll
	for (int i = 0; i < 4; i++) {
		int wide = min(4, (g.rows - 32 * across + 7) / 8);
		limit[i] = 32 * down + 8 * i >= g.rows ? 0 : down == across ? min(wide, i + 1) : wide;
	}
	double left[8], right[8];
	{
		double sum[4][4][2] = {};
		grams(sum, a, 32 * down, 32 * across, limit, na);
		gather(left, sums, sum);
	}
	double *signals = g.signals + (long long)blockIdx.x * 1024;
	if (g.known) {
#pragma unroll
		for (int m = 0; m < 8; m++)
			right[m] = signals[m * 128 + threadIdx.x];
	} else {
		double sum[4][4][2] = {};
		grams(sum, delta, 32 * down, 32 * across, limit, nd);
		gather(right, sums, sum);
		if (g.signals)
#pragma unroll
			for (int m = 0; m < 8; m++)
				signals[m * 128 + threadIdx.x] = right[m];
	}
	double total = 0, length = 0, traces = 0;
#pragma unroll
	for (int m = 0; m < 8; m++) {
		const int e = m * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
		const int row = e / 8 * 8 + lane / 4, column = e / 2 % 4 * 8 + lane % 4 * 2 + e % 2;
		const bool diagonal = down == across && e / 8 == e / 2 % 4;
		total = fma(diagonal ? left[m] : 2 * left[m], right[m], total);
		if (diagonal && row == column) length += sqrt(left[m] * right[m]), traces += left[m] + right[m];
	}
	const double parts[gram_parts] = {total, length, traces};
#pragma unroll
	for (int i = 0; i < gram_parts; i++) {
		double sum = block_sum(partial, parts[i]);
		if (threadIdx.x == 0) g.partial[gram_parts * (long long)blockIdx.x + i] = sum;
	}
}
