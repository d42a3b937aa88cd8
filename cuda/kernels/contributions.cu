// Sums of an exact program: each record's clipped gradient is rounded to integers at random, its
// norm is checked in integers, and the integers are added (internal/plan, type Contributions).
// begin_contributions gives each record its budget. The instructions of the sums then take the
// squared norms of their parts from the budgets, one instruction after the other.
//
// Built gradients. admit_built reads a record's gradient, in float32, determines the squared norm
// of its rounding and writes the rounding that it chose; add_built reads the gradients again and
// adds the rounded numbers. The integers are not stored: a word costs about ten operations, less
// than four bytes written and read. Words of 4096 elements share a key, as in internal/cpu.
// Predicted for an H100: both kernels read the gradients, 8 bytes an element at 3.35 TB/s; 512
// records of 26000 elements take 32 µs. A block adds one record's squares, so that few records
// with long gradients do not fill the GPU.
//
// Products of one row a record. round_rank_one rounds both rows to 16 bits and writes them; the
// squared norm of â⊗δ̂ is ‖â‖²‖δ̂‖². add_rank_one adds â⊗δ̂ over all records, modulo 2^32 for at
// most 511 records, then to sums of 64 bits. It multiplies 32-bit integers in ordinary lanes, 64 by
// 64 sums a block: 784×1000 from 512 records are 0.4·10⁹ products, 28 µs at 14·10¹² a second. It
// does not use tensor cores, whose peak for planes of 8 bits is more than ten times this rate.
#include "batch.h"
#include "each.h"
#include "lattice.h"
#include "squares.h"

KERNEL begin_contributions(int64_t *budgets, int n) {
	EACH(i, n) budgets[i] = lattice_bound_squared;
}

constexpr int built_block = 4096;  // elements of a built gradient that share a key

struct BuiltGradients {
	Contribution contribution;
	const float *rows;
	int size, _;
};

// admit_built processes the parts of a batch one after the other, because they take from the
// same budgets: block r does the r-th record of each.
KERNEL LAUNCH_BOUNDS(512) admit_built(Batch<BuiltGradients> batch) {
	SHARED(uint64_t, partial, 32);
	const int r = blockIdx.x;
	for (int part = 0; part < batch.parts; part++) {
		const BuiltGradients &p = batch.arguments[part];
		const int size = p.size;
		const float *row = p.rows + (long long)r * size;
		choose_rounding(p.contribution, r, [&](double wide, uint64_t seed) {
			const float scale = (float)wide;
			const uint64_t mixed = mix(seed);  // row_key(seed, 0, b) is mix(mixed + b·golden_gamma)
			uint64_t sum = 0;
			if (scale != 0)
				for (int from = 0; from < size; from += built_block) {
					const RoundingWords words(mix(mixed + (uint64_t)(from / built_block) * golden_gamma));
					const int n = min(built_block, size - from);
					for (int i = threadIdx.x; i < n; i += blockDim.x)
						add_square(sum, dither(row[from + i], scale, words.of(i)));
				}
			return within(block_sum(partial, sum));
		});
		__syncthreads();  // before the next part reads the rest of the budget
	}
}

// add_built adds the rounded gradients of some records; the block's y selects each of them. A thread
// adds one element. at maps elements to the parameter's order; null is the identity.
struct BuiltSum {
	int64_t *sums;
	const int *at;
	const RecordRounding *roundings;
	const float *rows;
	int size, records, each, _;
};

KERNEL LAUNCH_BOUNDS(256) add_built(Batch<BuiltSum> batch) {
	constexpr int threads = 256;
	SHARED(float, scales, threads);
	SHARED(unsigned, starts, threads);
	SHARED(unsigned, strides, threads);
	const BatchBlock block(batch);
	const BuiltSum p = batch.arguments[block.part];
	const long long e = block.x * (long long)threads + threadIdx.x;
	const int key = (int)(block.x * (long long)threads / built_block), i = (int)(e % built_block);
	const int from = block.y * p.each, to = min(p.records, from + p.each);
	int64_t sum = 0;
	for (int first = from; first < to; first += threads) {
		const int r = first + threadIdx.x;
		RecordRounding how = {0, 0, 0};
		if (r < to) how = p.roundings[r];
		const RoundingWords words(row_key(how.seed, 0, key));
		scales[threadIdx.x] = how.adds ? how.scale : 0;
		starts[threadIdx.x] = words.start;
		strides[threadIdx.x] = words.step;
		__syncthreads();
		const int n = min(threads, to - first);
		if (e < p.size)
			for (int k = 0; k < n; k += 4) {  // loads in flight; records after the last one have scale 0
				float x[4], scale[4];
#pragma unroll
				for (int j = 0; j < 4; j++) {
					scale[j] = scales[k + j];
					x[j] = scale[j] != 0 ? p.rows[(long long)(first + k + j) * p.size + e] : 0;
				}
#pragma unroll
				for (int j = 0; j < 4; j++) {
					if (scale[j] == 0) continue;
					RoundingWords w(0);
					w.start = starts[k + j];
					w.step = strides[k + j];
					sum += __float2int_rn(dither(x[j], scale[j], w.of(i)));
				}
			}
		__syncthreads();
	}
	if (e >= p.size) return;
	const int to_element = p.at ? p.at[e] : (int)e;
	if (to_element >= 0) add_steps(p.sums + to_element, sum);
}

// narrow_gradients rounds gradients that were built in double.
KERNEL narrow_gradients(float *out, const double *in, long long n) {
	EACH(i, n) out[i] = (float)in[i];
}

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

// round_row rounds a row to 16 bits and returns its squared norm, to all threads; more than 2^28 if
// an element is not finite or out of range.
template <class S> __device__ __forceinline__ uint64_t round_row(S &partial, int16_t *out, const float *x, int n, float scale, uint64_t key) {
	const RoundingWords words(key);
	uint64_t sum = 0;
	bool outside = false;
	for (int i = threadIdx.x; i < n; i += blockDim.x) {
		int v = 0;
		if (scale != 0) {
			float t = dither(x[i], scale, words.of(i));
			if (fabsf(t) <= 32767)
				v = __float2int_rn(t);
			else
				outside = true;
		}
		out[i] = (int16_t)v;
		sum += (uint64_t)(v * v);
	}
	return block_sum(partial, outside ? too_long : sum);
}

KERNEL LAUNCH_BOUNDS(256) round_rank_one(Contribution c, int16_t *rounded_a, int16_t *rounded_delta, const float *a, const float *delta, int width, int signals, double aspect) {
	SHARED(double, sums, 32);
	SHARED(uint64_t, partial, 32);
	const int r = blockIdx.x;
	a += (long long)r * width;
	delta += (long long)r * signals;
	rounded_a += (long long)r * width;
	rounded_delta += (long long)r * signals;
	bool adds = false;
	if (c.factors[r] > 0) {
		const double length_a = sqrt(squares(sums, a, width)), length_d = sqrt(squares(sums, delta, signals));
		const bool zero = length_a == 0 || length_d == 0;
		adds = choose_rounding(c, r, [&](double scale, uint64_t seed) -> int64_t {
			float scale_a = 0, scale_d = 0;
			if (!zero) split_scale(scale, length_a, length_d, aspect, scale_a, scale_d);
			const uint64_t squares_a = round_row(partial, rounded_a, a, width, scale_a, row_key(seed, 0, 0));
			const uint64_t squares_d = round_row(partial, rounded_delta, delta, signals, scale_d, row_key(seed, 1, 0));
			constexpr uint64_t longest = 1 << 28;  // lattice.MaxRowNorm²
			return squares_a > longest || squares_d > longest ? -1 : (int64_t)(squares_a * squares_d);
		});
	}
	if (adds) return;
	for (int i = threadIdx.x; i < width; i += blockDim.x) rounded_a[i] = 0;
	for (int i = threadIdx.x; i < signals; i += blockDim.x) rounded_delta[i] = 0;
}

// read_quad reads elements i to i+3 of a row of n.
__device__ __forceinline__ int4 read_quad(const int16_t *row, int i, int n) {
	return make_int4(i < n ? row[i] : 0, i + 1 < n ? row[i + 1] : 0, i + 2 < n ? row[i + 2] : 0, i + 3 < n ? row[i + 3] : 0);
}

KERNEL LAUNCH_BOUNDS(256) add_rank_one(int64_t *sums, const int *at, const int16_t *a, const int16_t *delta, int width, int signals, int records, int each) {
	constexpr int depth = 16, side = 64, quads = side / 4;
	SHARED(int4, left, depth * quads);
	SHARED(int4, right, depth * quads);
	const int across = (signals + side - 1) / side;
	const int m0 = blockIdx.x / across * side, n0 = blockIdx.x % across * side;
	const int y = threadIdx.x / quads, x = threadIdx.x % quads;
	const int from = blockIdx.y * each, to = min(records, from + each);
	unsigned sum[4][4] = {};  // modulo 2^32
	for (int first = from; first < to; first += depth) {
		const long long r = first + y;
		left[threadIdx.x] = r < to ? read_quad(a + r * width, m0 + 4 * x, width) : make_int4(0, 0, 0, 0);
		right[threadIdx.x] = r < to ? read_quad(delta + r * signals, n0 + 4 * x, signals) : make_int4(0, 0, 0, 0);
		__syncthreads();
#pragma unroll
		for (int k = 0; k < depth; k++) {
			const int4 p = left[k * quads + y], q = right[k * quads + x];
			const int u[4] = {p.x, p.y, p.z, p.w}, v[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
			for (int i = 0; i < 4; i++)
#pragma unroll
				for (int j = 0; j < 4; j++) sum[i][j] += (unsigned)(u[i] * v[j]);
		}
		__syncthreads();
	}
#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int j = 0; j < 4; j++) {
			const int m = m0 + 4 * y + i, n = n0 + 4 * x + j;
			if (m >= width || n >= signals) continue;
			const int e = m * signals + n, to_element = at ? at[e] : e;
			if (to_element >= 0) add_steps(sums + to_element, (int)sum[i][j]);
		}
}
