// Squared norms of records' gradients that are products of T rows, ‖Σ_t a_t ⊗ δ_t‖² as
// ⟨AAᵀ, ΔΔᵀ⟩ (Goodfellow 2015, "Efficient per-example gradient computations"): the
// gradient is never built.
//
// The kernels read the rows of A and Δ, and write the squared norm of each record. They
// compute in double: the terms of the inner product cancel, and float would leave an
// error of the order of (Σ_t‖a_t‖‖δ_t‖)²·2⁻²⁴, far more than the norm of some records. A
// bound on the error in double is added, so that norms are never underestimated. A bound
// on the error of the sum of gradients, which is in float, is added as well, for rows
// that cancel.
//
// Shape. A block processes 32 by 32 pairs of a record's rows, on and below the diagonal.
// Each of its four warps processes every fourth group of 16 columns of A, then of Δ. A
// warp reads these columns from memory without shared memory, four columns of a row per
// lane, and loads the next ones while it multiplies. Then the warps' sums are added in
// shared memory and the two Gram matrices are multiplied. The matrices are not written,
// except ΔΔᵀ where another weight with the same Δ needs it. The order of every sum
// depends only on the record's rows: a record's bits do not depend on the others.
//
// Predicted: T²/2·(p+d) multiplications in double per record at 60% of 33 T/s on an
// H100; 32 records of 64 rows, 128 and 512 wide, take 2.5 µs, the 5000 outputs of a head
// 17 µs.
//
// GPUs with slow doubles. A GPU with one double operation per 32 or 64 float operations
// would take thirty times as long. There the tiles of tile.h compute the matrices in
// float. A bound on the rounding error of the record's norm is added. A record for which
// the bound is more than 1/256 of the norm is marked: its blocks compute it again in
// double, and the blocks of all others return at once. Predicted for an L4 (15 T
// multiplications a second in float, .23 in double): the 64 rows above take 9 µs at 60%,
// with whole squares multiplied; 0.2 ms in double.
//
// Tensor cores. Where products of split operands are faster (split.h) and TF32 or bfloat16
// is allowed, product_gram_split has the shape of product_gram, with three products of
// TF32 numbers in the place of one in double. The bound and the recomputation are those of
// float. Predicted for an H100: a step of a warp, 32 by 32 sums over 16 columns, takes 48
// instructions of 4 to 6 cycles, and 460 cycles in double (35 products a cycle and quarter of
// a multiprocessor).
#include "gram_float.h"
#include "gram_split.h"
#include "matrix.h"

// Rows are the rows of two matrices, A and Δ.
struct Rows {
	const float *a, *delta;
	int na, nd, aligned_a, aligned_d;

	__device__ __forceinline__ RowMajor left(int record, int rows) const { return of(a, record, rows, na, aligned_a); }
	__device__ __forceinline__ RowMajor right(int record, int rows) const { return of(delta, record, rows, nd, aligned_d); }
	__device__ __forceinline__ static RowMajor of(const float *x, int record, int rows, int n, int aligned) {
		return {x + (long long)record * rows * n, rows, n, n, aligned != 0};
	}
};

KERNEL LAUNCH_BOUNDS(128, 2) product_gram(Batch<GramPart<double, Rows>> batch) {
	const BatchBlock block(batch);
	const Gram<double> &g = batch.arguments[block.part].gram;
	const Rows &r = batch.arguments[block.part].rows;
	const int record = block.x / g.pairs;
	if (g.is_selected(record)) inner_product(g, r.left(record, g.rows), r.right(record, g.rows), block.x, r.na, r.nd);
}
KERNEL LAUNCH_BOUNDS(128, 2) product_gram_split(Batch<GramPart<double, Rows>> batch) {
	const BatchBlock block(batch);
	const Gram<double> &g = batch.arguments[block.part].gram;
	const Rows &r = batch.arguments[block.part].rows;
	const int record = block.x / g.pairs;
	inner_product_split(g, r.left(record, g.rows), r.right(record, g.rows), block.x, r.na, r.nd);
}
template <class T> __device__ __forceinline__ void product_gram_float(const Batch<GramPart<float, Rows>> &batch) {
	const BatchBlock block(batch);
	const Gram<float> &g = batch.arguments[block.part].gram;
	const Rows &r = batch.arguments[block.part].rows;
	const int record = block.x / g.pairs;
	inner_product_float<T>(g, r.left(record, g.rows), r.right(record, g.rows), block.x, r.na, r.nd);
}
KERNEL LAUNCH_BOUNDS(64, 6) product_gram_float_32(Batch<GramPart<float, Rows>> batch) { product_gram_float<Tile32x32>(batch); }
KERNEL LAUNCH_BOUNDS(128, 2) product_gram_float_64(Batch<GramPart<float, Rows>> batch) { product_gram_float<Tile64x64>(batch); }

// TiedTable is a table that is both multiplied and lookup_rows up, as an embedding tied
// to the last layer. A lookup of entry i is a product with a row that is 1 at i and 0
// elsewhere, so the two uses are one product with the rows of both.
struct TiedTable {
	const float *a, *delta, *index, *lookups;
	int rows, lookup_rows;  // of a record: of the product, and of the lookup
	int width, vocabulary;
	int aligned_a, aligned_delta;  // a and lookups, delta
};

// TiedInputs are the rows of A: those of the product, then the signals of the lookups.
struct TiedInputs {
	static constexpr Access access = Access::along_rows;
	const TiedTable &t;
	int record;

	using Row = const float *;
	__device__ __forceinline__ Row row(int i) const {
		if (i < t.rows) return t.a + ((long long)record * t.rows + i) * t.width;
		i -= t.rows;
		return i < t.lookup_rows ? t.lookups + ((long long)record * t.lookup_rows + i) * t.width : nullptr;
	}
	__device__ __forceinline__ float4 quad(Row r, int k) const { return load_quad(r, k, t.width, t.aligned_a != 0); }
};

// TiedSignals are the rows of Δ: those of the product, then a one for every lookup.
struct TiedSignals {
	static constexpr Access access = Access::along_rows;
	const TiedTable &t;
	int record;

	struct Row {
		const float *at;
		int one;  // where at is null: the position of the 1, or -1
	};
	__device__ __forceinline__ Row row(int i) const {
		if (i < t.rows) return {t.delta + ((long long)record * t.rows + i) * t.vocabulary, -1};
		i -= t.rows;
		float v = i < t.lookup_rows ? t.index[(long long)record * t.lookup_rows + i] : -1.0f;
		return {nullptr, v >= 0 && v < t.vocabulary && truncf(v) == v ? (int)v : -1};
	}
	__device__ __forceinline__ float4 quad(const Row &r, int k) const {
		if (r.at) return load_quad(r.at, k, t.vocabulary, t.aligned_delta != 0);
		return make_float4(k == r.one, k + 1 == r.one, k + 2 == r.one, k + 3 == r.one);
	}
};

KERNEL LAUNCH_BOUNDS(128, 2) tied_gram(Batch<GramPart<double, TiedTable>> batch) {
	const BatchBlock block(batch);
	const Gram<double> &g = batch.arguments[block.part].gram;
	const TiedTable &t = batch.arguments[block.part].rows;
	const int record = block.x / g.pairs;
	if (g.is_selected(record)) inner_product(g, TiedInputs{t, record}, TiedSignals{t, record}, block.x, t.width, t.vocabulary);
}
KERNEL LAUNCH_BOUNDS(128, 2) tied_gram_float_64(Batch<GramPart<float, TiedTable>> batch) {
	const BatchBlock block(batch);
	const Gram<float> &g = batch.arguments[block.part].gram;
	const TiedTable &t = batch.arguments[block.part].rows;
	const int record = block.x / g.pairs;
	inner_product_float<Tile64x64>(g, TiedInputs{t, record}, TiedSignals{t, record}, block.x, t.width, t.vocabulary);
}

// record_sum is the sum over a record's blocks of result i of n. A warp computes it for
// its record.
__device__ __forceinline__ double record_sum(const double *partial, int record, int pairs, int n, int i) {
	double sum = 0;
	for (int p = threadIdx.x % 32; p < pairs; p += 32)
		sum += partial[n * ((long long)record * pairs + p) + i];
	return warp_sum(sum);
}

// ErrorTerms are added to a norm: the error of a float sum of the gradient's rows,
// relative to their lengths, and a share of the squared norms of the operands.
struct ErrorTerms {
	double sum_error, operand_share;

	__device__ __forceinline__ float add_to(double square, double length, double traces) const {
		const double norm = sqrt(square) + sum_error * length;
		return (float)(norm * norm + operand_share * traces);
	}
};

// gram_norms computes the norms of the selected records, one warp per record. The inner
// product of two rows of n elements has an error of at most n·2⁻⁵³ of the product of
// their lengths. The sum of rows² of them adds the error of 2·rows roundings. The sum of
// all products of lengths is length²; the argument error is relative to it and covers
// both.
struct GramNorms {
	float *out;
	const double *partial;
	const int *recompute;
	int records, pairs;
	double error;
	ErrorTerms terms;
};

KERNEL LAUNCH_BOUNDS(128) gram_norms(Batch<GramNorms> batch) {
	const BatchBlock block(batch);
	const GramNorms p = batch.arguments[block.part];
	const int record = block.x * 4 + threadIdx.x / 32;
	if (record >= p.records || (p.recompute && !p.recompute[record])) return;
	double sum[gram_parts];
#pragma unroll
	for (int i = 0; i < gram_parts; i++)
		sum[i] = record_sum(p.partial, record, p.pairs, gram_parts, i);
	if (threadIdx.x % 32 != 0) return;
	const double total = sum[0], length = sum[1];
	p.out[record] = p.terms.add_to((total < 0 ? 0 : total) + p.error * length * length, length, sum[2]);
}

// GramError bounds the error of a Gram matrix in float or of split operands: in the
// Frobenius norm it is at most gamma times the trace, plus underflow where numbers
// underflow.
struct GramError {
	double gamma, underflow;

	__device__ __forceinline__ double bound(double trace) const { return gamma * (trace + underflow) + underflow; }
};

// gram_norms_float computes norms from Gram matrices with such errors, and marks the
// records that need double. With the computed matrices A′ and D′ for A and D,
//
// 	|⟨A′, D′⟩ − ⟨A, D⟩| ≤ ‖A′−A‖‖D′‖ + ‖A‖‖D′−D‖
//
// and adding up ⟨A′, D′⟩ has an error of at most dot_error·‖A′‖‖D′‖, plus tiny where
// products underflow.
struct FloatGramNorms {
	float *out;
	int *recompute;
	const double *partial;
	int records, pairs;
	GramError a, d;
	double dot_error, tiny;
	ErrorTerms terms;
};

KERNEL LAUNCH_BOUNDS(128) gram_norms_float(Batch<FloatGramNorms> batch) {
	const BatchBlock block(batch);
	const FloatGramNorms p = batch.arguments[block.part];
	const int record = block.x * 4 + threadIdx.x / 32;
	if (record >= p.records) return;
	double sum[gram_sums];
#pragma unroll
	for (int i = 0; i < gram_sums; i++)
		sum[i] = record_sum(p.partial, record, p.pairs, gram_sums, i);
	if (threadIdx.x % 32 != 0) return;
	const double total = sum[0], tiny = p.tiny, norm_a = sqrt(sum[1] + tiny), norm_d = sqrt(sum[2] + tiny);
	const double error_a = p.a.bound(sum[3]), error_d = p.d.bound(sum[4]);
	const double margin = 1.001;  // for the rounding errors of the bounds themselves
	const double total_error = margin * (error_a * norm_d + (norm_a + error_a) * error_d + p.dot_error * norm_a * norm_d) + tiny;
	p.recompute[record] = !((total_error <= total / 256 && total_error < INFINITY) || total_error <= 1e-30);
	const double length = margin * sqrt((sum[3] + error_a) * (sum[4] + error_d));  // by the Cauchy–Schwarz inequality
	p.out[record] = p.terms.add_to((total < 0 ? 0 : total) + total_error, length, sum[3] + sum[4]);
}
