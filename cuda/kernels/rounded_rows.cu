// Sums of an exact program over products, Σ_t a_t ⊗ δ_t of the rows of each record, as integers
// (internal/plan, type Contributions). Both rows are rounded to 16 bits, with scales whose product is
// the scale of the record; the integers and all decisions are those of type rowSum in internal/cpu.
//
// round_rank_one is for one row a record, whose squared norm is ‖â‖²·‖δ̂‖². admit_rows is for several
// rows. It writes the rounded rows and takes the squared norm of their integer product from the
// record's budget; the host chooses whether that is computed from Gram matrices, ⟨ÂÂᵀ, Δ̂Δ̂ᵀ⟩, or from
// the product itself. Rows that are too long for this, because they cancel, are replaced by zeros; the
// block then builds the record's gradient in float32, element by element, and adds its rounding. Both
// kernels write zeros for records that add nothing. A block processes one record: others do not
// affect it.
//
// add_rows adds â⊗δ̂ over all rows of at most 511 records modulo 2^32, then to sums of 64 bits. No
// gradient is written to memory. For 64 records of 64 rows, 128 and 512 wide, the rounded rows are 5
// MB; the 16 tiles read 17 MB of them and multiply 2.7·10⁸ pairs, and the norms need 1.7·10⁸. The
// gradients would be 17 MB in float32, written once and read twice.
//
// A block that chooses a rounding has 8 warps and up to 232 registers a thread, so a multiprocessor
// runs one such block at a time: few records leave a part of the GPU idle.
#include "integer.h"
#include "lattice.h"
#include "squares.h"

// exponent is math.Ilogb of Go.
__device__ __forceinline__ long long exponent(double x) {
	if (x == 0) return -(1ll << 31);
	int lift = 0;
	if (fabs(x) < 0x1p-1022) {
		x *= 0x1p52;
		lift = 52;
	}
	int e = (int)(__double_as_longlong(x) >> 52 & 0x7ff);
	return e == 0x7ff ? (1ll << 31) - 1 : e - 1023 - lift;
}

__device__ __forceinline__ double power_of_two(int e) { return __longlong_as_double((long long)(1023 + e) << 52); }

// split_scale is splitScale of internal/cpu: scales of both rows whose product is scale. aspect is
// √(In/Out).
__device__ __forceinline__ void split_scale(double scale, double length_a, double length_d, double aspect, float &scale_a, float &scale_d) {
	constexpr int most = 13;
	double balanced = sqrt(scale * length_a * length_d * aspect) / length_a;
	long long e = exponent(balanced * 1.41421356237309504880);
	e = max(e, exponent(scale * length_d) + 1 - most);
	e = min(e, most - 1 - exponent(length_a));
	e = min(max(e, -120ll), 120ll);
	scale_a = (float)power_of_two((int)e);
	scale_d = (float)(scale * power_of_two(-(int)e));
}

// round_element writes the rounding of an element to 16 bits and adds its square; an element that is
// not finite or out of range becomes 0.
__device__ __forceinline__ void round_element(int16_t *out, float x, float scale, unsigned word, uint64_t &sum, bool &outside) {
	int v = 0;
	if (scale != 0) {
		const float t = dither(x, scale, word);
		if (fabsf(t) <= 32767)
			v = __float2int_rn(t);
		else
			outside = true;
	}
	*out = (int16_t)v;
	sum += (uint64_t)(v * v);
}

constexpr uint64_t longest_row = 1 << 28;   // lattice.MaxRowNorm²
constexpr uint64_t longest_rows = 1ull << 55;  // above every sum over the rows of a record; a block adds up 256

// Operand is one side of a product: rows in float32, and their rounding with rows that start at
// multiples of 8 bytes. The elements after a row's end are zeros.
struct Operand {
	const float *x;
	int16_t *rounded;
	int width, stride;  // stride is width, rounded up to a multiple of 4

	// record selects the rows of a record.
	__device__ __forceinline__ Operand record(int r, int rows) const {
		return {x + (long long)r * rows * width, rounded + (long long)r * rows * stride, width, stride};
	}
	__device__ __forceinline__ IntegerMatrix matrix(int rows) const { return {rounded, rows, stride}; }
};

// round_row rounds a row and returns its squared norm, to all threads; more than longest_row if an
// element is out of range.
template <class S> __device__ __forceinline__ uint64_t round_row(S &partial, const Operand &o, float scale, uint64_t key) {
	const RoundingWords words(key);
	uint64_t sum = 0;
	bool outside = false;
	for (int i = threadIdx.x; i < o.stride; i += blockDim.x) {
		const bool inside = i < o.width;
		round_element(o.rounded + i, inside ? o.x[i] : 0, inside ? scale : 0, words.of(i), sum, outside);
	}
	return block_sum(partial, outside ? too_long : sum);
}

// round_rows rounds the rows of a record, a warp each, and returns the sum of their squared norms, to
// all threads; longest_rows or more if the norm of a row is out of range. side is 0 for A and 1 for Δ.
template <class S> __device__ __forceinline__ uint64_t round_rows(S &partial, const Operand &o, int rows, float scale, uint64_t seed, int side) {
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
	uint64_t total = 0;
	for (int t = warp; t < rows; t += warps) {
		const Operand row = o.record(t, 1);
		const RoundingWords words(row_key(seed, side, t));
		uint64_t sum = 0;
		bool outside = false;
		for (int i = lane; i < row.stride; i += 32) {
			const bool inside = i < row.width;
			round_element(row.rounded + i, inside ? row.x[i] : 0, inside ? scale : 0, words.of(i), sum, outside);
		}
		sum = warp_sum(outside ? too_long : sum);
		if (lane == 0) total += sum;
		if (sum > longest_row) total = longest_rows;
	}
	return block_sum(partial, total);
}

// clear_rows writes zeros for the rows of a record.
__device__ __forceinline__ void clear_rows(const Operand &o, int rows) {
	for (long long i = threadIdx.x; i < (long long)rows * o.stride; i += blockDim.x) o.rounded[i] = 0;
}

// RowSum is a sum over the products of the rows of each record.
struct RowSum {
	Operand a, delta;
	int64_t *sums;
	const int *at;     // where elements belong in sums; null is the identity
	double aspect;     // √(a.width / delta.width)
	int rows;          // of a record
	int from_product;  // whether the norm is computed from the product, not from Gram matrices

	__device__ __forceinline__ void add(long long e, int64_t steps) const {
		const int to_element = at ? at[e] : (int)e;
		if (to_element >= 0) add_steps(sums + to_element, steps);
	}
};

KERNEL LAUNCH_BOUNDS(256) round_rank_one(Contribution c, RowSum s) {
	SHARED(double, sums, 32);
	SHARED(uint64_t, partial, 32);
	const int r = blockIdx.x;
	const Operand a = s.a.record(r, 1), delta = s.delta.record(r, 1);
	bool adds = false;
	if (c.factors[r] > 0) {
		const double length_a = sqrt(squares(sums, a.x, a.width)), length_d = sqrt(squares(sums, delta.x, delta.width));
		const bool zero = length_a == 0 || length_d == 0;
		adds = choose_rounding(c, r, [&](double scale, uint64_t seed) -> int64_t {
			float scale_a = 0, scale_d = 0;
			if (!zero) split_scale(scale, length_a, length_d, s.aspect, scale_a, scale_d);
			const uint64_t squares_a = round_row(partial, a, scale_a, row_key(seed, 0, 0));
			const uint64_t squares_d = round_row(partial, delta, scale_d, row_key(seed, 1, 0));
			return squares_a > longest_row || squares_d > longest_row ? out_of_range : (int64_t)(squares_a * squares_d);
		});
	}
	if (adds) return;
	clear_rows(a, 1);
	clear_rows(delta, 1);
}

// squared_norm is ‖Σ_t â_t ⊗ δ̂_t‖², to all threads. ‖Â‖²‖Δ̂‖² is at most 2^60. It bounds the squared
// norm and, by the inequality of Cauchy and Schwarz, the sum of the absolute values of the products
// of the Gram matrices. No element of the product exceeds 2^30, no element of a Gram matrix 2^28: both
// are exact modulo 2^32. A thread keeps its elements of the first Gram matrix in shared memory.
template <class P, class G, class S>
__device__ __forceinline__ int64_t squared_norm(P &panels, G &grams, S &partial, const Operand &a, const Operand &delta, int rows, bool from_product) {
	uint64_t sum = 0;
	const IntegerMatrix left = a.matrix(rows), right = delta.matrix(rows);
	if (from_product) {
		for (int m = 0; m < a.width; m += integer_side)
			for (int n = 0; n < delta.width; n += integer_side)
				integer_product<false>(panels, left, right, m, n, 0, rows, [&](int, int, int, unsigned v) { sum += (uint64_t)((int64_t)(int)v * (int)v); });
		return (int64_t)block_sum(partial, sum);
	}
	for (int u = 0; u < rows; u += integer_side)
		for (int t = u; t < rows; t += integer_side) {  // below the diagonal
			uint64_t part = 0;
#pragma unroll 1
			for (int side = 0; side < 2; side++)
				integer_product<true>(panels, side ? right : left, side ? right : left, t, u, 0, side ? delta.stride : a.stride, [&](int i, int, int, unsigned v) {
					if (side) part += (uint64_t)((int64_t)(int)grams[i * integer_threads + threadIdx.x] * (int)v);
					else grams[i * integer_threads + threadIdx.x] = (int)v;
				});
			sum += t == u ? part : 2 * part;
		}
	return (int64_t)block_sum(partial, sum);
}

// gradient_element is element (m, n) of Σ_t a_t ⊗ δ_t in float32, the same bits whenever it is
// computed.
__device__ __forceinline__ float gradient_element(const Operand &a, const Operand &delta, int rows, int m, int n) {
	float sum = 0;
	for (int t = 0; t < rows; t++)
		sum = fmaf(a.x[(long long)t * a.width + m], delta.x[(long long)t * delta.width + n], sum);
	return sum;
}

// each_built calls use with the elements of the rounding of a gradient in float32, before they are
// converted to integers.
template <class Use> __device__ __forceinline__ void each_built(const Operand &a, const Operand &delta, int rows, float scale, uint64_t seed, Use use) {
	const int size = a.width * delta.width;
	for (int e = threadIdx.x; e < size; e += blockDim.x) {
		const RoundingWords words(row_key(seed, 0, e / built_block));
		use(e, dither(gradient_element(a, delta, rows, e / delta.width, e % delta.width), scale, words.of(e % built_block)));
	}
}

KERNEL VARIED_BOUNDS(256, 2) admit_rows(Contribution c, RowSum s) {
	SHARED(float, panels, integer_words);
	SHARED(int, grams, integer_side * integer_side);
	SHARED(double, sums, 32);
	SHARED(uint64_t, partial, 32);
	const int r = blockIdx.x;
	const Operand a = s.a.record(r, s.rows), delta = s.delta.record(r, s.rows);
	bool adds = false, cancels = false;
	if (c.factors[r] > 0) {
		const double length_a = sqrt(squares(sums, a.x, s.rows * a.width)), length_d = sqrt(squares(sums, delta.x, s.rows * delta.width));
		const bool zero = length_a == 0 || length_d == 0;
		bool first = true;
		adds = choose_rounding(c, r, [&](double scale, uint64_t seed) -> int64_t {
			float scale_a = 0, scale_d = 0;
			if (!zero) split_scale(scale, length_a, length_d, s.aspect, scale_a, scale_d);
			const uint64_t squares_a = round_rows(partial, a, s.rows, scale_a, seed, 0);
			const uint64_t squares_d = round_rows(partial, delta, s.rows, scale_d, seed, 1);
			if (zero) return 0;
			if (squares_a >= longest_rows || squares_d >= longest_rows || (double)squares_a * (double)squares_d > 0x1p60) {
				cancels = first;
				return first ? other_rounding : out_of_range;
			}
			first = false;
			return squared_norm(panels, grams, partial, a, delta, s.rows, s.from_product != 0);
		});
	}
	if (!adds) {
		clear_rows(a, s.rows);
		clear_rows(delta, s.rows);
	}
	if (!cancels) return;
	adds = choose_rounding(c, r, [&](double scale, uint64_t seed) {
		uint64_t sum = 0;
		if ((float)scale != 0) each_built(a, delta, s.rows, (float)scale, seed, [&](int, float dithered) { add_square(sum, dithered); });
		return within(block_sum(partial, sum));
	});
	__syncthreads();
	const RecordRounding how = c.roundings[r];
	if (!adds || how.scale == 0) return;
	each_built(a, delta, s.rows, how.scale, how.seed, [&](int e, float dithered) { s.add(e, __float2int_rn(dithered)); });
}

// add_rows adds the products of the rows of some records; blockIdx.y selects `each` of them.
KERNEL LAUNCH_BOUNDS(256, 2) add_rows(RowSum s, int records, int each) {
	SHARED(float, panels, integer_words);
	const int across = (s.delta.width + integer_side - 1) / integer_side;
	const int m0 = blockIdx.x / across * integer_side, n0 = blockIdx.x % across * integer_side;
	const int from = blockIdx.y * each, to = min(records, from + each);
	integer_product<false>(panels, s.a.matrix(to * s.rows), s.delta.matrix(to * s.rows), m0, n0, from * s.rows, to * s.rows, [&](int, int m, int n, unsigned v) {
		if (m < s.a.width && n < s.delta.width) s.add((long long)m * s.delta.width + n, (int)v);
	});
}
