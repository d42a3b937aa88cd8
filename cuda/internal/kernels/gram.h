// Inner products of Gram matrices in double, ⟨AAᵀ, ΔΔᵀ⟩. The rows are operands as tile.h
// defines them. See gram.cu.
#pragma once
#include "batch.h"
#include "double.h"
#include "reduce.h"
#include "tile.h"

// Gram is the argument that all blocks of a part of a batch share. A block computes one
// pair of tiles of a record's rows.
template <class Number> struct Gram {
	double *partial;     // results of every block
	Number *signals;     // ΔΔᵀ of every block, or null
	const int *selected; // of each record: compute it if not 0; null: compute all
	int signals_stored;  // signals is read, not written
	int rows, pairs;     // of a record
	int slice;           // in float by tile.h: the products that are added before their sum is added to a larger sum

	__device__ __forceinline__ bool is_selected(int record) const { return !selected || selected[record]; }
};

// Results of a block and of a record: the inner product, the sum of squares of AAᵀ, that
// of ΔΔᵀ, and the two traces.
constexpr int gram_sums = 5;

// GramPart is a part of a batch: the argument of all kinds of rows, and the rows.
template <class Number, class Rows> struct GramPart {
	Gram<Number> gram;
	Rows rows;
};

// TilePair is a block's two tiles. Pairs are numbered row by row: (0,0), (1,0), (1,1),
// (2,0), …
struct TilePair {
	int row = 0, column;

	__device__ __forceinline__ TilePair(int number) {
		while ((row + 1) * (row + 2) / 2 <= number)
			row++;
		column = number - row * (row + 1) / 2;
	}
};

// load_quarter returns four of a row's sixteen elements from k on, those that a quarter
// of the lanes loads: four neighbours, or every fourth element if neighbouring lanes
// then read neighbouring memory.
template <class Rows> __device__ __forceinline__ float4 load_quarter(const Rows &x, const typename Rows::Row &r, int k, int quarter) {
	if constexpr (Rows::access == Access::along_rows)
		return x.quad(r, k + 4 * quarter);
	else
		return make_float4(x.element(r, k + quarter), x.element(r, k + quarter + 4), x.element(r, k + quarter + 8), x.element(r, k + quarter + 12));
}

// DoubleSums are a warp's 32 by 32 sums in double. A thread has 32 of them: sum e is that of
// row 8·(e/8) + lane/4 and column 8·(e/2%4) + 2·(lane%4) + e%2.
struct DoubleSums {
	double sum[4][4][2] = {};

	// add adds the products of four elements of k. A thread passes those of rows lane/4,
	// lane/4 + 8, … of both operands. limit is the number of groups of eight columns for each
	// group of eight rows.
	__device__ __forceinline__ void add(const float4 (&u)[4], const float4 (&v)[4], const int (&limit)[4]) {
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
	__device__ __forceinline__ void finish() {}
	__device__ __forceinline__ double of(int e) const { return sum[e / 8][e / 2 % 4][e % 2]; }
};

// add_gram_products adds the products of rows first+0…31 with rows second+0…31 of x to
// sum.
template <class Sums, class Rows>
__device__ __forceinline__ void add_gram_products(Sums &sum, const Rows &x, int first, int second, const int (&limit)[4], int n) {
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
			next_u[i] = load_quarter(x, left[i], k, lane % 4);
			next_v[i] = same ? next_u[i] : load_quarter(x, right[i], k, lane % 4);
		}
	};
	fetch(16 * warp);
	for (int k = 16 * warp; k < n; k += 64) {
#pragma unroll
		for (int i = 0; i < 4; i++)
			u[i] = next_u[i], v[i] = next_v[i];
		if (k + 64 < n) fetch(k + 64);
		sum.add(u, v, limit);
	}
	sum.finish();
}

// reduce_warps adds up the warps' sums. Each thread gets eight of the 1024, those with
// number 128·m + threadIdx.x.
template <class S, class Sums> __device__ __forceinline__ void reduce_warps(double (&own)[8], S &sums, const Sums &sum) {
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
	for (int e = 0; e < 32; e++)
		sums[warp * 1024 + e * 32 + lane] = sum.of(e);
	__syncthreads();
#pragma unroll
	for (int m = 0; m < 8; m++) {
		own[m] = 0;
		for (int w = 0; w < 4; w++)
			own[m] += sums[w * 1024 + m * 128 + threadIdx.x];
	}
	__syncthreads();
}

// GramTiles are the tiles of a block of the part: of AAᵀ and of ΔΔᵀ. A thread has eight
// numbers of both.
struct GramTiles {
	double left[8], right[8];
	TilePair at;

	// row and column of a thread's number m in the tiles, each of eight columns or rows.
	__device__ __forceinline__ static int element(int m) { return m * 4 + threadIdx.x / 32; }
	__device__ __forceinline__ static int row(int m) { return element(m) / 8 * 8 + threadIdx.x % 32 / 4; }
	__device__ __forceinline__ static int column(int m) { return element(m) / 2 % 4 * 8 + threadIdx.x % 4 * 2 + element(m) % 2; }

	// multiplicity is the number of times that a number is in the matrix. Those of the eight by
	// eight on the diagonal are all present; the others have a symmetric one, which is not
	// computed, or which is this one, if it is above the diagonal.
	__device__ __forceinline__ int multiplicity(int m) const {
		if (at.row != at.column) return 2;
		const int i = element(m) / 8, j = element(m) / 2 % 4;
		return i == j ? 1 : i > j ? 2 : 0;
	}
	__device__ __forceinline__ bool is_diagonal(int m) const { return at.row == at.column && row(m) == column(m); }
};

template <class Sums, class A, class D>
__device__ __forceinline__ GramTiles gram_tiles(const Gram<double> &g, const A &a, const D &delta, long long block, int na, int nd) {
	SHARED(double, sums, 4 * 1024);
	GramTiles t = {{}, {}, TilePair(block % g.pairs)};
	const int tile_row = t.at.row, tile_column = t.at.column;
	int limit[4];
#pragma unroll
	for (int i = 0; i < 4; i++) {
		int column_blocks = min(4, (g.rows - 32 * tile_column + 7) / 8);
		limit[i] = 32 * tile_row + 8 * i >= g.rows ? 0 : tile_row == tile_column ? min(column_blocks, i + 1) : column_blocks;
	}
	{
		Sums sum;
		add_gram_products(sum, a, 32 * tile_row, 32 * tile_column, limit, na);
		reduce_warps(t.left, sums, sum);
	}
	double *signals = g.signals + block * 1024;
	if (g.signals_stored) {
#pragma unroll
		for (int m = 0; m < 8; m++)
			t.right[m] = signals[m * 128 + threadIdx.x];
	} else {
		Sums sum;
		add_gram_products(sum, delta, 32 * tile_row, 32 * tile_column, limit, nd);
		reduce_warps(t.right, sums, sum);
		if (g.signals)
#pragma unroll
			for (int m = 0; m < 8; m++)
				signals[m * 128 + threadIdx.x] = t.right[m];
	}
	return t;
}

// store_sums stores sums over the threads of a block of the part.
template <int n> __device__ __forceinline__ void store_sums(double *results, const double (&sums)[n]) {
	SHARED(double, partial, 32);
#pragma unroll
	for (int i = 0; i < n; i++) {
		const double sum = block_sum(partial, sums[i]);
		if (threadIdx.x == 0) results[i] = sum;
	}
}

// inner_product computes, for the tiles of a block of the part, the inner product, Σ‖a_t‖‖δ_t‖, and the
// sum of the two traces.
constexpr int gram_parts = 3;

template <class A, class D>
__device__ __forceinline__ void inner_product(const Gram<double> &g, const A &a, const D &delta, long long block, int na, int nd) {
	const GramTiles t = gram_tiles<DoubleSums>(g, a, delta, block, na, nd);
	double total = 0, length = 0, traces = 0;
#pragma unroll
	for (int m = 0; m < 8; m++) {
		total = fma(t.multiplicity(m) * t.left[m], t.right[m], total);
		if (t.is_diagonal(m)) length += sqrt(t.left[m] * t.right[m]), traces += t.left[m] + t.right[m];
	}
	const double sums[gram_parts] = {total, length, traces};
	store_sums(g.partial + gram_parts * block, sums);
}
