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
#include "gram.h"
#include "matrix.h"

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
