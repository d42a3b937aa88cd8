// Sums of an exact program over products, Σ_t a_t ⊗ δ_t of the rows of each record, as integers
// (internal/device/plan, type Contributions). Both rows are rounded to 16 bits, with scales whose product is
// the scale of the record; the integers and all decisions are those of type rowSum in internal/device/cpu. The
// rows of a dense layer are numbers in memory. The rows of a convolution are its signals at a position
// and the patch that the position reads; a picture has one rounding, which all patches share.
//
// row_lengths adds up the squares of sections of a record's floats. The norm of a product of one row
// has computed them (rank_one of reductions.cu).
// round_rows writes the rows, rounded as the first attempt of the record demands, and row_norms computes the
// squared norm of their integer product, from Gram matrices, ⟨ÂÂᵀ, Δ̂Δ̂ᵀ⟩, or from the product itself, as
// the host chooses; one row needs neither, its squared norm is ‖â‖²·‖δ̂‖². These three use many blocks a
// record and do not wait for other parameters: their integer sums have the same bits in every order.
//
// admit takes the squared norms from the records' budgets, those of gradients that contributions.cu built
// among them. A warp handles a record, and a lane a parameter, if all parts of the record fit as they are.
// Otherwise a block handles one parameter after the other: a part of one row that does not fit is rounded
// again. Several rows that do not fit, because they cancel, are replaced by zeros; the block then builds the
// record's gradient in float32, element by element, and adds its rounding. Records that add nothing get
// zeros.
//
// A table that is looked up in and also multiplied with has the rows of the product and those of its
// lookups, which are rounded to 32 bits. With P the product and G the sum of the lookups' rows,
// ‖P + G‖² = ‖P‖² + ‖G‖² + 2⟨P, G⟩, and ⟨P, G⟩ = Σ_s Σ_t â_t[i_s]·⟨δ̂_t, ε̂_s⟩ for the lookups ε_s of the
// rows i_s. tied_norms adds the last two. add_gathered of embedding.cu adds the lookups.
//
// add_rows adds â⊗δ̂ over all rows of at most 511 records modulo 2^32, then to sums of 64 bits. No
// gradient is written to memory. For 64 records of 64 rows, 128 and 512 wide, the rounded rows are 5
// MB; the 16 tiles read 17 MB of them and multiply 2.7·10⁸ pairs, and the norms need 1.7·10⁸. The
// gradients would be 17 MB in float32, written once and read twice.
#include "batch.h"
#include "gram.h"
#include "integer.h"
#include "lattice.h"
#include "patch.h"
#include "squares.h"
#include "table.h"

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

// split_scale is splitScale of internal/device/cpu: scales of both rows whose product is scale. aspect is
// 4·In/Out.
__device__ __forceinline__ void split_scale(double scale, double squares_a, double squares_d, double aspect, float &scale_a, float &scale_d) {
	constexpr int most = 13;
	const double wide = scale * scale * squares_d;
	long long e = exponent(aspect * wide / squares_a) >> 2;
	e = max(e, (exponent(wide) >> 1) + 1 - most);
	e = min(e, most - 1 - (exponent(squares_a) >> 1));
	e = min(max(e, -120ll), 120ll);
	scale_a = (float)power_of_two((int)e);
	scale_d = (float)(scale * power_of_two(-(int)e));
}

// round_element rounds an element to 16 bits and adds its square; an element that is not finite or out
// of range becomes 0.
__device__ __forceinline__ int round_element(float x, float scale, unsigned word, uint64_t &sum, bool &outside) {
	int v = 0;
	if (scale != 0) {
		const float t = dither(x, scale, word);
		if (fabsf(t) <= 32767)
			v = __float2int_rn(t);
		else
			outside = true;
	}
	sum += (uint64_t)(v * v);
	return v;
}

constexpr uint64_t longest_row = 1 << 28;   // lattice.MaxRowNorm²
constexpr uint64_t longest_rows = 1ull << 55;  // above every sum over the rows of a record; a block adds up 256
constexpr int section = 1 << 14;            // floats whose squares a block adds up

enum RowKind { numbers, signals, patches };

// RowOperand is one side of a product: floats of records, and their rounding as rows that start at
// multiples of 8 bytes. The elements after a row's end are zeros.
struct RowOperand {
	const float *x;
	int16_t *rounded;
	const PatchOffset *taps, *corners;  // of patches
	Divider area;                       // of signals and patches: divides a row into its picture and position
	int size, picture;                  // floats of a record, and of a picture
	int width, stride;                  // stride is width, rounded up to a multiple of 4
	int kind, side;                     // side selects the keys of the rows
	int _;

	__device__ __forceinline__ const float *record(int r) const { return x + (long long)r * size; }
	__device__ __forceinline__ int16_t *row(int r, int rows, int t) const { return rounded + ((long long)r * rows + t) * stride; }
	__device__ __forceinline__ IntegerMatrix matrix(int r, int rows) const { return {row(r, rows, 0), rows, stride}; }
	__device__ __forceinline__ int sections() const { return (size + section - 1) / section; }
};

// OperandRow finds the elements of a row of a record.
template <int kind> struct OperandRow {
	const RowOperand &o;
	int first;            // float of the record: the row's first number, or the position in its picture
	unsigned corner = 0;  // of a patch: its mask

	__device__ __forceinline__ OperandRow(const RowOperand &o, int t) : o(o), first(t * o.width) {
		if (kind == numbers) return;
		int position;
		first = divide(o.area, t, position) * o.picture;
		if (kind == signals) {
			first += position;
			return;
		}
		const PatchOffset at = o.corners[position];
		first += at.bytes / 4;
		corner = at.mask;
	}

	// at returns which float of the record element i is; less than 0 if it is a zero.
	__device__ __forceinline__ int at(int i) const {
		if (i >= o.width) return -1;
		if (kind == numbers) return first + i;
		if (kind == signals) return first + i * (int)o.area.by;
		const PatchOffset tap = o.taps[i];
		return (corner & tap.mask) == tap.mask ? first + tap.bytes / 4 : -1;
	}
};

// PartRows are the rows of one of some parts of a record, and how a block's warps divide them: a team of
// warps rounds a row. If a team has several warps, each team has at most one row.
struct PartRows {
	int from, to, team;

	__device__ __forceinline__ PartRows(int rows, int part, int parts) {
		const int each = (rows + parts - 1) / parts, warps = blockDim.x / 32;
		from = part * each;
		to = min(rows, from + each);
		team = 1;
		while (2 * team * (to - from) <= warps && 2 * team <= warps) team *= 2;
	}
	__device__ __forceinline__ int first() const { return from + (int)threadIdx.x / 32 / team; }
	__device__ __forceinline__ int step() const { return (int)blockDim.x / 32 / team; }
};

// team_sum adds up a number of each warp over the warps of each team. All threads of the block call it.
template <class S> __device__ __forceinline__ uint64_t team_sum(S &partial, uint64_t x, int team) {
	const int warp = threadIdx.x / 32;
	if (threadIdx.x % 32 == 0) partial[warp] = x;
	__syncthreads();
	uint64_t sum = 0;
	for (int i = warp / team * team; i < (warp / team + 1) * team; i++) sum += (uint64_t)partial[i];
	__syncthreads();
	return sum;
}

// load_quad loads the elements i to i+3 of a row and the numbers of their words. Those after the row's
// end and outside of a picture are 0 and have no number.
template <int kind> __device__ __forceinline__ void load_quad(const OperandRow<kind> &row, const float *x, int i, float (&v)[4], int (&number)[4]) {
	if (kind == numbers && i + 3 < row.o.width && (uint64_t)(x + row.first + i) % sizeof(float4) == 0) {
		const float4 quad = *reinterpret_cast<const float4 *>(x + row.first + i);
		v[0] = quad.x, v[1] = quad.y, v[2] = quad.z, v[3] = quad.w;
#pragma unroll
		for (int j = 0; j < 4; j++) number[j] = i + j;
		return;
	}
#pragma unroll
	for (int j = 0; j < 4; j++) {
		const int at = row.at(i + j);
		v[j] = at < 0 ? 0 : x[at];
		number[j] = at < 0 ? -1 : kind == numbers ? i + j : at;
	}
}

__device__ __forceinline__ unsigned pack(int low, int high) { return ((unsigned)low & 0xffff) | (unsigned)high << 16; }

// round_part_of adds to a thread's part of the result of round_part.
template <int kind, class S>
__device__ __forceinline__ void round_part_of(S &partial, const RowOperand &o, int r, int rows, int part, int parts, float scale, uint64_t seed, uint64_t &total) {
	const int lane = threadIdx.x % 32;
	const float *x = o.record(r);
	const PartRows those(rows, part, parts);
	const int rank = (int)threadIdx.x % (32 * those.team);
	uint64_t sum = 0;
	for (int t = those.first(); t < those.to; t += those.step()) {
		const OperandRow<kind> row(o, t);
		const RoundingWords words(row_key(seed, o.side, kind == numbers ? t : 0));
		int16_t *out = o.row(r, rows, t);
		bool outside = false;
		sum = 0;
#pragma unroll 2
		for (int i = 4 * rank; i < o.stride; i += 128 * those.team) {
			float v[4];
			int number[4], rounded[4];
			load_quad(row, x, i, v, number);
#pragma unroll
			for (int j = 0; j < 4; j++) rounded[j] = round_element(v[j], number[j] < 0 ? 0 : scale, words.of(number[j]), sum, outside);
			*reinterpret_cast<uint2 *>(out + i) = make_uint2(pack(rounded[0], rounded[1]), pack(rounded[2], rounded[3]));
		}
		if (kind != numbers) continue;
		sum = warp_sum(outside ? too_long : sum);
		if (those.team > 1) continue;
		if (lane == 0) total += sum;
		if (sum > longest_row) total = longest_rows;
	}
	if (kind == numbers && those.team > 1) {
		sum = team_sum(partial, sum, those.team);
		if (rank == 0) total += sum;
		if (sum > longest_row) total = longest_rows;
	}
	if (kind == numbers || scale == 0) return;
	const RoundingWords words(row_key(seed, o.side, 0));
	const int last = (int)((long long)o.size * (part + 1) / parts);
	bool outside = false;
	for (int i = (int)((long long)o.size * part / parts) + threadIdx.x; i < last; i += blockDim.x) round_element(x[i], scale, words.of(i), total, outside);
	if (outside) total = longest_rows;
}

// round_part rounds one of some parts of the rows of record r and returns the sum of their squared
// norms, to all threads; longest_rows or more if the norm of a row is out of range. The
// squared norm of pictures is that of their own numbers, and more than longest_row is out of range.
template <class S>
__device__ __forceinline__ uint64_t round_part(S &partial, const RowOperand &o, int r, int rows, int part, int parts, float scale, uint64_t seed) {
	uint64_t total = 0;
	if (o.kind == numbers)
		round_part_of<numbers>(partial, o, r, rows, part, parts, scale, seed, total);
	else if (o.kind == signals)
		round_part_of<signals>(partial, o, r, rows, part, parts, scale, seed, total);
	else
		round_part_of<patches>(partial, o, r, rows, part, parts, scale, seed, total);
	total = block_sum(partial, total);
	return o.kind != numbers && total > longest_row ? longest_rows : total;
}

// clear_rows writes zeros for one of some parts of the rows of a record.
__device__ __forceinline__ void clear_rows(const RowOperand &o, int r, int rows, int part, int parts) {
	uint2 *out = reinterpret_cast<uint2 *>(o.row(r, rows, 0));
	const long long quads = (long long)rows * (o.stride / 4);
	for (long long i = (long long)part * blockDim.x + threadIdx.x; i < quads; i += (long long)parts * blockDim.x) out[i] = make_uint2(0, 0);
}

// RowNorm is the result of a rounding of a record's rows.
struct RowNorm {
	uint64_t squares[2];  // of the rows of A and of Δ
	uint64_t product;     // the squared norm of Σ_t â_t ⊗ δ̂_t
	uint64_t outside;     // not 0: a row is too long
	uint64_t gathered;    // the squared norm of the sum of the lookups
	uint64_t cross;       // twice the inner product of both sums
};

// Lookups are those of a table that is also multiplied with; A has a column for each row of the table.
struct Lookups {
	const float *index, *delta;  // of all records
	int *rounded;                // the rows of Δ, as integers
	uint64_t *squares;           // their squared norms
	int *links;                  // of each lookup, see find_link
	int count, _;                // of a record; 0: the parameter has none
};

// RowErrors estimates what the rounding of rows adds to the squared norm of their product: RowErrors of
// internal/device/plan.
struct RowErrors {
	double a, delta, both;

	__device__ __forceinline__ int64_t of(uint64_t squares_a, uint64_t squares_d, uint64_t product) const {
		const double together = __dmul_rn(__dmul_rn(both, (double)product), (double)(squares_a + squares_d));
		const double apart = __dadd_rn(__dmul_rn(a, (double)squares_a), __dmul_rn(delta, (double)squares_d));
		return (int64_t)fmin(__dadd_rn(together, apart), (double)too_long);
	}
};

// RowSum is a sum over the products of the rows of each record.
struct RowSum {
	Contribution contribution;
	RowOperand a, delta;
	Lookups lookups;
	double *lengths;   // of each record: the sums of squares of its sections, those of A first
	RowNorm *norms;    // of the first rounding of each record
	int64_t *sums;
	const int *at;     // where elements belong in sums; null is the identity
	RowErrors errors;
	double aspect;     // 4·a.width / delta.width
	double overlap;    // an upper bound on Σ_t ‖a_t‖²‖δ_t‖² ÷ ‖A‖²‖Δ‖²
	int rows;          // of a record
	int from_product;  // whether the norm is computed from the product, not from Gram matrices
	int units;         // tiles or pairs of tiles that make the norm; 0: it is the product of both squared norms
	int records, each; // that add_rows adds; each of them in a block

	// is_single_row returns whether the sum is a product of one row of a record. Then rank_one can have
	// computed the lengths, and one block of round_rows rounds both rows.
	__device__ __forceinline__ bool is_single_row() const { return rows == 1 && lookups.count == 0; }

	// builds returns whether the gradient of a record is built if its rows do not fit.
	__device__ __forceinline__ bool builds() const { return units > 0 || lookups.count > 0; }

	// product is the squared norm of Σ_t â_t ⊗ δ̂_t.
	__device__ __forceinline__ uint64_t product(const RowNorm &n) const { return units == 0 ? n.squares[0] * n.squares[1] : n.product; }

	__device__ __forceinline__ void add(long long e, int64_t steps) const {
		const int to_element = at ? at[e] : (int)e;
		if (to_element >= 0) add_steps(sums + to_element, steps);
	}

	__device__ __forceinline__ double *sections_of(int r) const { return lengths + (long long)r * (a.sections() + delta.sections()); }

	// scales returns the scales of the rows of record r from its scale; zeros if one side is zero.
	__device__ __forceinline__ void scales(int r, double scale, float &scale_a, float &scale_d) const {
		double squares_a = 0, squares_d = 0;
		const double *from = sections_of(r);
		for (int i = 0; i < a.sections(); i++) squares_a += *from++;
		for (int i = 0; i < delta.sections(); i++) squares_d += *from++;
		scale_a = scale_d = 0;
		if (squares_a != 0 && squares_d != 0) split_scale(scale, squares_a, squares_d, aspect, scale_a, scale_d);
	}

	// fits reports whether the norm can be computed. ‖Â‖²‖Δ̂‖² times overlap is then at most 2^60. It
	// bounds the squared norm and, by the inequality of Cauchy and Schwarz, the sum of the absolute
	// values of the products of the Gram matrices. No element of the product exceeds 2^30, no element
	// of a Gram matrix 2^28: both are exact modulo 2^32.
	__device__ __forceinline__ bool fits(const RowNorm &n) const {
		return n.outside == 0 && (rows == 1 || overlap * (double)n.squares[0] * (double)n.squares[1] <= 0x1p60);
	}
};

// find_link is twice the number after the next lookup of the record with the index of lookup t, 0 if there
// is none, and 1 more if an earlier lookup has this index.
__device__ __forceinline__ int find_link(const float *index, int count, int t) {
	int next = t + 1, earlier = 0;
	while (next < count && index[next] != index[t]) next++;
	while (earlier < t && index[earlier] != index[t]) earlier++;
	return (next < count ? 2 * (next + 1) : 0) + (earlier < t);
}

// round_lookups rounds one of some parts of a record's lookups. It returns whether any is too long, to
// all threads.
template <class S>
__device__ __forceinline__ bool round_lookups(S &partial, const RowSum &s, int r, int part, int parts, float scale, uint64_t seed) {
	const Lookups &k = s.lookups;
	const long long first = (long long)r * k.count;
	const int dim = s.delta.width, each = (k.count + parts - 1) / parts, to = min(k.count, (part + 1) * each);
	for (int t = part * each + threadIdx.x; t < to; t += blockDim.x) k.links[first + t] = find_link(k.index + first, k.count, t);
	uint64_t refused = 0;
	seed = row_key(seed, 2, 0);
	for (int t = part * each + threadIdx.x / 32; t < to; t += blockDim.x / 32) {
		const bool used = table_row(k.index[first + t], s.a.width) >= 0;  // else zeros
		const uint64_t sum = round_table_row(k.rounded + (first + t) * dim, k.delta + (first + t) * dim, dim, used ? scale : 0, row_key(seed, 0, t));
		if (sum > (uint64_t)lattice_bound_squared) refused = 1;
		if (threadIdx.x % 32 == 0) k.squares[first + t] = sum;
	}
	return block_sum(partial, refused) > 0;
}

// add_tied adds to a thread's parts of RowNorm.gathered, which stays at too_long or above once it is above
// the largest norm, and of RowNorm.cross: those of some of the record's lookups.
__device__ __forceinline__ void add_tied(const RowSum &s, int r, int part, int parts, uint64_t &gathered, uint64_t &cross) {
	const Lookups &k = s.lookups;
	const int dim = s.delta.width, lane = threadIdx.x % 32, warps = blockDim.x / 32;
	const float *index = k.index + (long long)r * k.count;
	const int *links = k.links + (long long)r * k.count, *rounded = k.rounded + (long long)r * k.count * dim;
	for (int t = part * warps + threadIdx.x / 32; t < k.count; t += parts * warps) {
		const int entry = table_row(index[t], s.a.width);
		if (entry < 0) continue;
		for (int u = 0; u < s.rows; u++) {
			const int64_t signal = s.a.row(r, s.rows, u)[entry];
			if (signal == 0) continue;
			const int16_t *row = s.delta.row(r, s.rows, u);
			int64_t inner = 0;
			for (int j = lane; j < dim; j += 32) inner += (int64_t)row[j] * rounded[(long long)t * dim + j];
			cross += (uint64_t)(2 * signal * inner);
		}
		if (links[t] & 1) continue;  // the first lookup of the row adds up all
		for (int j = lane; j < dim; j += 32) {
			int64_t sum = rounded[(long long)t * dim + j];
			for (int next = links[t] / 2; next > 0; next = links[next - 1] / 2) sum += rounded[(long long)(next - 1) * dim + j];
			const bool outside = sum < -lattice_bound || sum > lattice_bound;
			gathered += outside ? too_long : (uint64_t)(sum * sum);
			if (gathered > too_long) gathered = too_long;
		}
	}
}

// lookup_lengths adds up the lengths of some lookups of record r: the first one and every step-th after it.
__device__ __forceinline__ double lookup_lengths(const RowSum &s, int r, int first, int step) {
	double length = 0;
	for (int t = first; t < s.lookups.count; t += step) length += sqrt((double)s.lookups.squares[(long long)r * s.lookups.count + t]);
	return length;
}

// tied_bound bounds the terms of ⟨P, G⟩, for the sum of all lengths of the lookups: Σ_s ‖ε̂_s‖·‖Â‖‖Δ̂‖.
__device__ __forceinline__ double tied_bound(const RowNorm &n, double length) { return length * sqrt((double)n.squares[0] * (double)n.squares[1]); }

// tied_fits reports whether the norm with lookups can be computed, as fits does.
template <class S> __device__ __forceinline__ bool tied_fits(S &partial, const RowSum &s, int r, const RowNorm &n) {
	const double length = block_sum(partial, lookup_lengths(s, r, threadIdx.x, blockDim.x));
	return s.fits(n) && n.gathered <= (uint64_t)lattice_bound_squared && !(tied_bound(n, length) > 0x1p60);
}

KERNEL LAUNCH_BOUNDS(256) row_lengths(Batch<RowSum> batch) {
	SHARED(double, sums, 32);
	const BatchBlock block(batch);
	const RowSum &s = batch.arguments[block.part];
	const int r = block.y, here = block.x, before = s.a.sections();
	if (here == 0 && threadIdx.x == 0) s.norms[r] = {{0, 0}, 0, 0, 0, 0};
	if (!(first_scale(s.contribution, r) > 0)) return;
	const RowOperand &o = here < before ? s.a : s.delta;
	const int from = (here < before ? here : here - before) * section;
	const double sum = squares(sums, o.record(r) + from, min(section, o.size - from));
	if (threadIdx.x == 0) s.sections_of(r)[here] = sum;
}

KERNEL LAUNCH_BOUNDS(256, 3) round_rows(Batch<RowSum> batch) {
	SHARED(uint64_t, partial, 32);
	const BatchBlock block(batch);
	const RowSum &s = batch.arguments[block.part];
	const int r = block.y;
	const double scale = first_scale(s.contribution, r);
	if (s.is_single_row() && threadIdx.x == 0) s.norms[r] = {{0, 0}, 0, 0, 0, 0};
	if (!(scale > 0)) {
		clear_rows(s.a, r, s.rows, block.x, block.grid_x);
		clear_rows(s.delta, r, s.rows, block.x, block.grid_x);
		return;
	}
	float scale_a, scale_d;
	s.scales(r, scale, scale_a, scale_d);
	const uint64_t seed = row_key(s.contribution.seeds[r], s.contribution.number, 0);
#pragma unroll 1
	for (int side = 0; side < 2; side++) {
		const uint64_t sum = round_part(partial, side ? s.delta : s.a, r, s.rows, block.x, block.grid_x, side ? scale_d : scale_a, seed);
		if (threadIdx.x != 0) continue;
		if (sum >= longest_rows)
			atomicExch((unsigned long long *)&s.norms[r].outside, 1ull);
		else
			atomicAdd((unsigned long long *)&s.norms[r].squares[side], (unsigned long long)sum);
	}
	if (s.lookups.count > 0 && round_lookups(partial, s, r, block.x, block.grid_x, (float)scale, seed) && threadIdx.x == 0)
		atomicExch((unsigned long long *)&s.norms[r].outside, 1ull);
}

KERNEL LAUNCH_BOUNDS(256) tied_norms(Batch<RowSum> batch) {
	SHARED(uint64_t, partial, 32);
	const BatchBlock block(batch);
	const RowSum &s = batch.arguments[block.part];
	const int r = block.y;
	if (!(first_scale(s.contribution, r) > 0)) return;
	uint64_t gathered = 0, cross = 0;
	add_tied(s, r, block.x, block.grid_x, gathered, cross);
	gathered = block_sum(partial, gathered);
	cross = block_sum(partial, cross);
	if (threadIdx.x != 0) return;
	atomicAdd((unsigned long long *)&s.norms[r].gathered, (unsigned long long)gathered);
	atomicAdd((unsigned long long *)&s.norms[r].cross, (unsigned long long)cross);
}

// norm_part is a thread's part of the squared norm of Σ_t â_t ⊗ δ̂_t: of a tile of the product, or of
// a pair of tiles of rows. A thread keeps its elements of the first Gram matrix in shared memory.
template <class P, class G> __device__ __forceinline__ uint64_t norm_part(P &panels, G &grams, const RowSum &s, int r, int unit) {
	const IntegerMatrix left = s.a.matrix(r, s.rows), right = s.delta.matrix(r, s.rows);
	uint64_t sum = 0;
	if (s.from_product) {
		const int across = (s.delta.width + integer_side - 1) / integer_side;
		integer_product<false>(panels, left, right, unit / across * integer_side, unit % across * integer_side, 0, s.rows,
			[&](int, int, int, unsigned v) { sum += (uint64_t)((int64_t)(int)v * (int)v); });
		return sum;
	}
	const TilePair pair(unit);
#pragma unroll 1
	for (int side = 0; side < 2; side++)
		integer_product<true>(panels, side ? right : left, side ? right : left, pair.row * integer_side, pair.column * integer_side, 0, side ? right.stride : left.stride,
			[&](int i, int, int, unsigned v) {
				if (side) sum += (uint64_t)((int64_t)(int)grams[i * integer_threads + threadIdx.x] * (int)v);
				else grams[i * integer_threads + threadIdx.x] = (int)v;
			});
	return pair.row == pair.column ? sum : 2 * sum;
}

KERNEL LAUNCH_BOUNDS(256) row_norms(Batch<RowSum> batch) {
	SHARED(float, panels, integer_words);
	SHARED(int, grams, integer_side * integer_side);
	SHARED(uint64_t, partial, 32);
	const BatchBlock block(batch);
	const RowSum &s = batch.arguments[block.part];
	const int r = block.y;
	RowNorm &n = s.norms[r];
	if (!(first_scale(s.contribution, r) > 0) || n.squares[0] == 0 || n.squares[1] == 0 || !s.fits(n)) return;
	const uint64_t sum = block_sum(partial, norm_part(panels, grams, s, r, block.x));
	if (threadIdx.x == 0) atomicAdd((unsigned long long *)&n.product, (unsigned long long)sum);
}

// gradient_element is element (m, n) of Σ_t a_t ⊗ δ_t in float32, the same bits whenever it is
// computed.
template <int kind_a, int kind_d> __device__ __forceinline__ float gradient_element(const RowSum &s, int r, int m, int n) {
	const float *x = s.a.record(r), *y = s.delta.record(r);
	float sum = 0;
	for (int t = 0; t < s.rows; t++) {
		const int i = OperandRow<kind_a>(s.a, t).at(m), j = OperandRow<kind_d>(s.delta, t).at(n);
		if (i >= 0 && j >= 0) sum = fmaf(x[i], y[j], sum);
	}
	return sum;
}

// tied_element is element (m, n) with lookups, added up in double.
__device__ __forceinline__ float tied_element(const RowSum &s, int r, int m, int n) {
	const Lookups &k = s.lookups;
	const float *x = s.a.record(r), *y = s.delta.record(r), *index = k.index + (long long)r * k.count;
	double sum = 0;
	for (int t = 0; t < s.rows; t++) sum = fma((double)x[t * s.a.width + m], (double)y[t * s.delta.width + n], sum);
	for (int t = 0; t < k.count; t++)
		if (table_row(index[t], s.a.width) == m) sum += k.delta[((long long)r * k.count + t) * s.delta.width + n];
	return (float)sum;
}

// each_built calls use with the elements of the rounding of a gradient in float32, before they are
// converted to integers.
template <class Use> __device__ __forceinline__ void each_built(const RowSum &s, int r, float scale, uint64_t seed, Use use) {
	const int size = s.a.width * s.delta.width;
	for (int e = threadIdx.x; e < size; e += blockDim.x) {
		const RoundingWords words(row_key(seed, 0, e / built_block));
		const int m = e / s.delta.width, n = e % s.delta.width;
		const float v = s.lookups.count > 0 ? tied_element(s, r, m, n) : s.a.kind == numbers ? gradient_element<numbers, numbers>(s, r, m, n) : gradient_element<signals, patches>(s, r, m, n);
		use(e, dither(v, scale, words.of(e % built_block)));
	}
}

// admit_row chooses the rounding of the only row of record r.
template <class S> __device__ __forceinline__ bool admit_row(S &partial, const Contribution &c, const RowSum &s, int r) {
	bool first = true;
	return choose_rounding(c, r, [&](double scale, uint64_t seed) -> int64_t {
		RowNorm n = s.norms[r];
		if (!first) {
			float scale_a, scale_d;
			s.scales(r, scale, scale_a, scale_d);
			n.squares[0] = round_part(partial, s.a, r, 1, 0, 1, scale_a, seed);
			n.squares[1] = round_part(partial, s.delta, r, 1, 0, 1, scale_d, seed);
			n.outside = n.squares[0] >= longest_rows || n.squares[1] >= longest_rows;
		}
		first = false;
		__syncthreads();
		return s.fits(n) ? (int64_t)s.product(n) : out_of_range;  // at most 2⁵⁶
	});
}

// admit_first_rows takes the first rounding of the rows of record r from its budget. If it does not fit, or
// its errors do not, cancels becomes true.
template <class D> __device__ __forceinline__ bool admit_first_rows(D &lengths, const Contribution &c, const RowSum &s, int r, bool &cancels) {
	const bool tied = s.lookups.count > 0;
	Budget *budget = c.budget(r);
	const Budget left = *budget;
	int64_t errors = 0;
	const bool adds = choose_rounding(c, r, [&](double, uint64_t) -> int64_t {
		const RowNorm n = s.norms[r];
		cancels = !(tied ? tied_fits(lengths, s, r, n) : s.fits(n));
		__syncthreads();
		if (cancels) return other_rounding;
		errors = s.errors.of(n.squares[0], n.squares[1], s.product(n));
		const int64_t taken = (int64_t)(s.product(n) + (tied ? n.gathered + n.cross : 0));
		cancels = errors > left.errors || taken > left.norm;
		return cancels ? other_rounding : taken;
	});
	if (adds && threadIdx.x == 0) budget->errors = left.errors - errors;
	return adds;
}

// admit_rows chooses the rounding of the rows of record r and clears them if they add nothing, or if its
// gradient is built.
template <class S, class D>
__device__ __forceinline__ void admit_rows(S &partial, D &lengths, const Contribution &c, const RowSum &s, int r) {
	bool cancels = false;
	const bool adds = s.builds() ? admit_first_rows(lengths, c, s, r, cancels) : admit_row(partial, c, s, r);
	if (!adds) {
		clear_rows(s.a, r, s.rows, 0, 1);
		clear_rows(s.delta, r, s.rows, 0, 1);
	}
	if (!cancels) return;
	const bool built = choose_rounding(c, r, [&](double scale, uint64_t seed) {
		uint64_t sum = 0;
		if ((float)scale != 0) each_built(s, r, (float)scale, seed, [&](int, float dithered) { add_square(sum, dithered); });
		return within(block_sum(partial, sum));
	});
	__syncthreads();
	const RecordRounding how = c.roundings[r];
	if (built && how.scale != 0)
		each_built(s, r, how.scale, how.seed, [&](int e, float dithered) { s.add(e, __float2int_rn(dithered)); });
	__syncthreads();
	if (threadIdx.x == 0) c.roundings[r].adds = 0;  // add_gathered must not add lookups again
}

// admit_built chooses the rounding of the gradient of record r.
template <class S> __device__ __forceinline__ void admit_built(S &partial, const Contribution &c, const BuiltGradients &built, int r) {
	bool first = true;
	choose_rounding(c, r, [&](double scale, uint64_t seed) {
		uint64_t sum = 0;
		if (!first)
			built.add_squares(sum, r, 0, 1, (float)scale, seed);
		else
			for (int i = threadIdx.x; i < built.chunks; i += blockDim.x) sum += built.squares[(long long)r * built.chunks + i];
		first = false;
		return within(block_sum(partial, sum));
	});
}

// first_square is the squared norm of the first rounding of a part of record r, without the lookups of a
// tied table; too_long if it is not known. errors becomes the estimate of the part's errors.
__device__ __forceinline__ uint64_t first_square(const Admission &p, int r, int64_t &errors) {
	if (p.rows) {
		const RowSum &s = *static_cast<const RowSum *>(p.rows);
		const RowNorm n = s.norms[r];
		if (!s.fits(n)) return too_long;
		if (s.builds()) errors = s.errors.of(n.squares[0], n.squares[1], s.product(n));
		return s.product(n);
	}
	uint64_t sum = 0;
	const uint64_t *squares = p.built.squares + (long long)r * p.built.chunks;
#pragma unroll 8
	for (int i = 0; i < p.built.chunks; i++) sum += squares[i];
	return sum;
}

// add_first_lookups adds to the squared norms of a warp's parts, a lane each, what the lookups of tied
// tables add; too_long if that is not known. Its sum of lengths has another order than that of tied_fits,
// so it leaves sums near the limit to admit_rows.
__device__ __forceinline__ void add_first_lookups(const Batch<Admission> &batch, int r, bool adds, uint64_t &square) {
	const int lane = threadIdx.x % 32;
	const RowSum *rows = adds ? static_cast<const RowSum *>(batch.arguments[lane].rows) : nullptr;
	for (unsigned tied = __ballot_sync(0xffffffff, rows && rows->lookups.count > 0); tied != 0; tied &= tied - 1) {
		const int part = __ffs((int)tied) - 1;
		const RowSum &s = *static_cast<const RowSum *>(batch.arguments[part].rows);
		const RowNorm n = s.norms[r];
		const double length = warp_sum(lookup_lengths(s, r, lane, 32));
		if (lane != part || square == too_long) continue;
		const bool known = n.gathered <= (uint64_t)lattice_bound_squared && tied_bound(n, length) < 0x1p59;
		square = known ? square + n.gathered + n.cross : too_long;
	}
}

// admit_first admits all parts of record r with their first rounding, if they fit their budgets; a warp
// calls it, and a lane handles a part. No square and no estimate is negative: if the sum of the parts of a group fits,
// each part fits what those before it leave. Otherwise, or if a norm is not known, it writes nothing and
// returns false.
__device__ __forceinline__ bool admit_first(const Batch<Admission> &batch, int r) {
	const int lane = threadIdx.x % 32;
	const bool used = lane < batch.parts;
	const Admission &p = batch.arguments[used ? lane : 0];
	const Contribution &c = p.contribution;
	const double scale = first_scale(c, r);
	const bool adds = used && scale > 0;
	Budget *budget = c.budget(r);
	Budget left = *budget;
	int64_t errors = 0;
	uint64_t square = adds ? first_square(p, r, errors) : 0;
	add_first_lookups(batch, r, adds, square);
	bool fits = square <= (uint64_t)lattice_bound_squared, takes = false;
	if (__ballot_sync(0xffffffff, fits) != 0xffffffff) return false;
	for (unsigned open = __ballot_sync(0xffffffff, adds); open != 0;) {
		const int leader = __ffs((int)open) - 1;
		const uint64_t of_leader = __shfl_sync(0xffffffff, (uint64_t)budget, leader);
		const bool shares = adds && (uint64_t)budget == of_leader;
		const uint64_t taken = warp_sum(shares ? square : 0), inexact = warp_sum(shares ? (uint64_t)errors : 0);
		if (lane == leader) {
			takes = true;
			left.norm -= (int64_t)taken;
			left.errors -= (int64_t)inexact;
			fits = left.norm >= 0 && left.errors >= 0;
		}
		open &= ~__ballot_sync(0xffffffff, shares);
	}
	if (__ballot_sync(0xffffffff, fits) != 0xffffffff) return false;
	if (takes) *budget = left;
	if (used) c.roundings[r] = adds ? RecordRounding{row_key(c.seeds[r], c.number, 0), (float)scale, 1} : RecordRounding{0, 0, 0};
	return true;
}

// admit takes the squared norms of the parts of a batch from the records' budgets. A warp admits a
// record whose parts fit. The block then does the other records of its warps, part after part, because
// parts take from the same budgets.
KERNEL LAUNCH_BOUNDS(256, 1) admit(Batch<Admission> batch) {
	SHARED(uint64_t, partial, 32);
	SHARED(double, lengths, 32);
	SHARED(int, admitted, 8);
	const int records = batch.grids[0].x, each = (records + gridDim.x - 1) / gridDim.x;
	const int warp = threadIdx.x / 32, first = blockIdx.x * each, n = min(each, records - first);
	const bool done = warp >= n || admit_first(batch, first + warp);
	if (threadIdx.x % 32 == 0) admitted[warp] = done;
	__syncthreads();
	for (int i = 0; i < n; i++) {
		const int skip = admitted[i], r = first + i;
		if (skip) continue;
		if (threadIdx.x == 0) atomicAdd(&batch.arguments[0].contribution.counts[2], 1);
		for (int part = 0; part < batch.parts; part++) {
			const Admission &p = batch.arguments[part];
			if (p.rows)
				admit_rows(partial, lengths, p.contribution, *static_cast<const RowSum *>(p.rows), r);
			else
				admit_built(partial, p.contribution, p.built, r);
			__syncthreads();  // before the next part reads the rest of the budget
		}
	}
}

// add_rows adds the products of the rows of some records; a block's y selects `each` of them.
KERNEL LAUNCH_BOUNDS(256, 2) add_rows(Batch<RowSum> batch) {
	SHARED(float, panels, integer_words);
	const BatchBlock block(batch);
	const RowSum &s = batch.arguments[block.part];
	const int across = (s.delta.width + integer_side - 1) / integer_side;
	const int m0 = block.x / across * integer_side, n0 = block.x % across * integer_side;
	const int from = block.y * s.each, to = min(s.records, from + s.each);
	integer_product<false>(panels, s.a.matrix(0, to * s.rows), s.delta.matrix(0, to * s.rows), m0, n0, from * s.rows, to * s.rows, [&](int, int m, int n, unsigned v) {
		if (m < s.a.width && n < s.delta.width) s.add((long long)m * s.delta.width + n, (int)v);
	});
}
