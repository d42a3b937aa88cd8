// Squared norms of records' gradients that are products of T rows, ‖Σ_t a_t ⊗ δ_t‖² as
// ⟨AAᵀ, ΔΔᵀ⟩ (Goodfellow 2015, "Efficient per-example gradient computations"): the
// gradient is never built.
//
// It is computed in double: the terms of the inner product cancel, and float would
// leave an error of the order of (Σ_t‖a_t‖‖δ_t‖)²·2⁻²⁴, far more than the norm of some
// records. What double leaves is bounded and added, so that no norm is found too small.
//
// A block has 32 by 32 pairs of a record's rows, on and below the diagonal. Its four
// warps have every fourth 16 columns of A, then of Δ, which they read straight from
// memory, four columns of a row a lane, the next ones while they multiply; then the
// warps' sums are added up in shared memory and the two Gram matrices multiplied. The
// matrices are not written, but for ΔΔᵀ where another weight of the same Δ asks for it.
// Only rows decide the order of any sum: a record's bits do not depend on the others.
//
// Predicted: T²/2·(p+d) multiplications in double a record at 60% of 33 T/s on an H100;
// 32 records of 64 rows, 128 and 512 wide, take 2.5 µs, the 5000 outputs of a head
// 17 µs. A card with one double for 64 floats takes thirty times as long.
#include "double.h"
#include "matrix.h"
#include "reduce.h"

// grams adds to sum the products of rows first+0…31 with rows second+0…31 of x. Lane
// groups are as in double.h; i and j count rows by eights. Limit says how many j each
// i has.
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
			next_u[i] = x.four(left[i], k + 4 * (lane % 4));
			next_v[i] = same ? next_u[i] : x.four(right[i], k + 4 * (lane % 4));
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

// gather adds up the warps' sums: this thread gets eight of the 1024, number
// 128·m + threadIdx.x.
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

struct Gram {
	double *partial;       // of every block: the inner product's part, and that of Σ‖a_t‖‖δ_t‖
	double *signals;       // ΔΔᵀ of every block, or null
	int known;             // signals is to be read, not written
	int rows, pairs;       // of a record
};

// inner gives a block's part of the inner product. Blocks count a record's pairs of
// tiles row by row: (0,0), (1,0), (1,1), (2,0), …
template <class A, class D>
__device__ __forceinline__ void inner(const Gram &g, const A &a, const D &delta, int pair, int na, int nd) {
	SHARED(double, sums, 4 * 1024);
	SHARED(double, partial, 32);
	int down = 0;
	while ((down + 1) * (down + 2) / 2 <= pair)
		down++;
	const int across = pair - down * (down + 1) / 2;
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
	double total = 0, length = 0;
#pragma unroll
	for (int m = 0; m < 8; m++) {
		const int e = m * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
		const int row = e / 8 * 8 + lane / 4, column = e / 2 % 4 * 8 + lane % 4 * 2 + e % 2;
		const bool diagonal = down == across && e / 8 == e / 2 % 4;
		total = fma(diagonal ? left[m] : 2 * left[m], right[m], total);
		if (diagonal && row == column) length += sqrt(left[m] * right[m]);
	}
	total = block_sum(partial, total);
	length = block_sum(partial, length);
	if (threadIdx.x == 0) {
		g.partial[2 * (long long)blockIdx.x] = total;
		g.partial[2 * (long long)blockIdx.x + 1] = length;
	}
}

KERNEL LAUNCH_BOUNDS(128, 2) product_gram(Gram g, const float *a, const float *delta, int na, int nd, int aligned_a, int aligned_d) {
	const long long first = (long long)(blockIdx.x / g.pairs) * g.rows;
	inner(g, Along{a + first * na, g.rows, na, na, aligned_a != 0}, Along{delta + first * nd, g.rows, nd, nd, aligned_d != 0},
		blockIdx.x % g.pairs, na, nd);
}

// Tied is a table that is multiplied with and also looked up in, as an embedding tied
// to the last layer is. A lookup of entry i is a product with a row that is 1 at i and
// else 0, so the two uses are one product with the rows of both.
struct Tied {
	const float *a, *delta, *index, *lookups;
	int rows, looked;  // of a record: of the product, and of the lookup
	int width, vocabulary;
	int aligned_a, aligned_delta;  // a and lookups, delta
};

// Stacked are the rows that A has: those of the product, then the lookup's signals.
struct Stacked {
	const Tied &t;
	int record;

	using Row = const float *;
	__device__ __forceinline__ Row row(int i) const {
		if (i < t.rows) return t.a + ((long long)record * t.rows + i) * t.width;
		i -= t.rows;
		return i < t.looked ? t.lookups + ((long long)record * t.looked + i) * t.width : nullptr;
	}
	__device__ __forceinline__ float4 four(Row r, int k) const { return quad(r, k, t.width, t.aligned_a != 0); }
};

// Marked are the rows that Δ has: those of the product, then a one for every lookup.
struct Marked {
	const Tied &t;
	int record;

	struct Row {
		const float *at;
		int one;  // where at is null: the place of the one, or -1
	};
	__device__ __forceinline__ Row row(int i) const {
		if (i < t.rows) return {t.delta + ((long long)record * t.rows + i) * t.vocabulary, -1};
		i -= t.rows;
		float v = i < t.looked ? t.index[(long long)record * t.looked + i] : -1.0f;
		return {nullptr, v >= 0 && v < t.vocabulary && truncf(v) == v ? (int)v : -1};
	}
	__device__ __forceinline__ float4 four(const Row &r, int k) const {
		if (r.at) return quad(r.at, k, t.vocabulary, t.aligned_delta != 0);
		return make_float4(k == r.one, k + 1 == r.one, k + 2 == r.one, k + 3 == r.one);
	}
};

KERNEL LAUNCH_BOUNDS(128, 2) tied_gram(Gram g, Tied t) {
	const int record = blockIdx.x / g.pairs;
	inner(g, Stacked{t, record}, Marked{t, record}, blockIdx.x % g.pairs, t.width, t.vocabulary);
}

// gram_norms ends the norms, a warp a record. A product of two rows of n elements is off
// by at most n·2⁻⁵³ of their lengths' product, adding up rows² of them costs as much for
// each of 2·rows, and all lengths' products together are length²; error is all that.
KERNEL LAUNCH_BOUNDS(128) gram_norms(float *out, const double *partial, int records, int pairs, double error) {
	const int lane = threadIdx.x % 32, record = blockIdx.x * 4 + threadIdx.x / 32;
	double total = 0, length = 0;
	for (int i = lane; record < records && i < pairs; i += 32) {
		total += partial[2 * ((long long)record * pairs + i)];
		length += partial[2 * ((long long)record * pairs + i) + 1];
	}
	total = warp_sum(total);
	length = warp_sum(length);
	if (lane == 0 && record < records)
		out[record] = (float)((total < 0 ? 0 : total) + error * length * length);
}
