// Squared norms of records' gradients that are products of T rows, ‖Σ_t a_t ⊗ δ_t‖² as
// ⟨AAᵀ, ΔΔᵀ⟩ (Goodfellow 2015, "Efficient per-example gradient computations"): the
// gradient is never built.
//
// It is computed in double: the terms of the inner product cancel, and float would
// leave an error of the order of (Σ_t‖a_t‖‖δ_t‖)²·2⁻²⁴, far more than the norm of some
// records. What double leaves is bounded and added, so that no norm is found too small,
// and so is what the sum of gradients, in float itself, may leave of rows that cancel.
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
// 17 µs.
//
// A card with one double for 32 or 64 floats would take thirty times as long. There the
// matrices are made in float by the tiles of tile.h, what roundings may have changed of
// the very record's norm is bounded and added, and a record of which that is more than
// 1/256 is doubted: its blocks compute it again in double, all others' return at once.
// Predicted for an L4 (15 T multiplications a second in float, .23 in double): the 64 rows
// above 9 µs at 60%, whole squares being multiplied; 0.2 ms in double.
#include "gram_float.h"
#include "matrix.h"

// Rows are those of two matrices.
struct Rows {
	const float *a, *delta;
	int na, nd, aligned_a, aligned_d;

	__device__ __forceinline__ Along left(int record, int rows) const { return of(a, record, rows, na, aligned_a); }
	__device__ __forceinline__ Along right(int record, int rows) const { return of(delta, record, rows, nd, aligned_d); }
	__device__ __forceinline__ static Along of(const float *x, int record, int rows, int n, int aligned) {
		return {x + (long long)record * rows * n, rows, n, n, aligned != 0};
	}
};

KERNEL LAUNCH_BOUNDS(128, 2) product_gram(Gram<double> g, Rows r) {
	const int record = blockIdx.x / g.pairs;
	if (g.asked(record)) inner(g, r.left(record, g.rows), r.right(record, g.rows), blockIdx.x % g.pairs, r.na, r.nd);
}
template <class T> __device__ __forceinline__ void product_gram_float(const Gram<float> &g, const Rows &r) {
	const int record = blockIdx.x / g.pairs;
	inner_float<T>(g, r.left(record, g.rows), r.right(record, g.rows), blockIdx.x % g.pairs, r.na, r.nd);
}
KERNEL LAUNCH_BOUNDS(64) product_gram_float_32(Gram<float> g, Rows r) { product_gram_float<Small>(g, r); }
KERNEL LAUNCH_BOUNDS(128, 2) product_gram_float_64(Gram<float> g, Rows r) { product_gram_float<Medium>(g, r); }

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
	static constexpr Reading reading = Reading::along;
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
	static constexpr Reading reading = Reading::along;
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

KERNEL LAUNCH_BOUNDS(128, 2) tied_gram(Gram<double> g, Tied t) {
	const int record = blockIdx.x / g.pairs;
	if (g.asked(record)) inner(g, Stacked{t, record}, Marked{t, record}, blockIdx.x % g.pairs, t.width, t.vocabulary);
}
KERNEL LAUNCH_BOUNDS(128, 2) tied_gram_float_64(Gram<float> g, Tied t) {
	const int record = blockIdx.x / g.pairs;
	inner_float<Medium>(g, Stacked{t, record}, Marked{t, record}, blockIdx.x % g.pairs, t.width, t.vocabulary);
}

// record_sum is the sum over a record's blocks of number i of the n that each leaves, by
// the warp that has the record.
__device__ __forceinline__ double record_sum(const double *partial, int record, int pairs, int n, int i) {
	double sum = 0;
	for (int p = threadIdx.x % 32; p < pairs; p += 32)
		sum += partial[n * ((long long)record * pairs + p) + i];
	return warp_sum(sum);
}

// Added is what a norm has beside the gradient's own: what a sum in float leaves of its
// rows, of their length, and a share of the squared norms of its operands.
struct Added {
	double summed, share;

	__device__ __forceinline__ float to(double square, double length, double traces) const {
		const double norm = sqrt(square) + summed * length;
		return (float)(norm * norm + share * traces);
	}
};

// gram_norms ends the norms of the records that are asked for, a warp a record. A product
// of two rows of n elements is off by at most n·2⁻⁵³ of their lengths' product, adding up
// rows² of them costs as much for each of 2·rows, and all lengths' products together are
// length²; error is all that.
KERNEL LAUNCH_BOUNDS(128)
gram_norms(float *out, const double *partial, const int *doubted, int records, int pairs, double error, Added added) {
	const int record = blockIdx.x * 4 + threadIdx.x / 32;
	if (record >= records || (doubted && !doubted[record])) return;
	double sum[gram_parts];
#pragma unroll
	for (int i = 0; i < gram_parts; i++)
		sum[i] = record_sum(partial, record, pairs, gram_parts, i);
	if (threadIdx.x % 32 != 0) return;
	const double total = sum[0], length = sum[1];
	out[record] = added.to((total < 0 ? 0 : total) + error * length * length, length, sum[2]);
}

// Roundings are those of a Gram matrix in float: what they change of it is, in the
// Frobenius norm, at most gamma times its trace, and lost where products underflow.
struct Roundings {
	double gamma, lost;

	__device__ __forceinline__ double of(double trace) const { return gamma * (trace + lost) + lost; }
};

// gram_norms_float ends the norms that were found in float and doubts those that it must.
// With A′ and D′ what was computed of the two matrices A and D,
//
//	|⟨A′, D′⟩ − ⟨A, D⟩| ≤ ‖A′−A‖‖D′‖ + ‖A‖‖D′−D‖
//
// and adding up ⟨A′, D′⟩ costs at most inner·‖A′‖‖D′‖, and tiny where products underflow.
KERNEL LAUNCH_BOUNDS(128)
gram_norms_float(float *out, int *doubted, const double *partial, int records, int pairs, Roundings a, Roundings d, double inner, double tiny, Added added) {
	const int record = blockIdx.x * 4 + threadIdx.x / 32;
	if (record >= records) return;
	double sum[gram_sums];
#pragma unroll
	for (int i = 0; i < gram_sums; i++)
		sum[i] = record_sum(partial, record, pairs, gram_sums, i);
	if (threadIdx.x % 32 != 0) return;
	const double total = sum[0], norm_a = sqrt(sum[1] + tiny), norm_d = sqrt(sum[2] + tiny);
	const double off_a = a.of(sum[3]), off_d = d.of(sum[4]);
	const double margin = 1.001;  // the sums that bound have roundings, too
	const double off = margin * (off_a * norm_d + (norm_a + off_a) * off_d + inner * norm_a * norm_d) + tiny;
	doubted[record] = !((off <= total / 256 && off < INFINITY) || off <= 1e-30);
	const double length = margin * sqrt((sum[3] + off_a) * (sum[4] + off_d));  // by Cauchy and Schwarz
	out[record] = added.to((total < 0 ? 0 : total) + off, length, sum[3] + sum[4]);
}
