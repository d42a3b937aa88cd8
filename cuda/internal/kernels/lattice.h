// Contributions of an exact program: integer vectors, lattice steps, whose norms are checked in
// integers. Stochastic rounding has the bits of package lattice: the same floats, scale and key
// give the same integers on every device.
#pragma once
#include "device.h"
#include "reduce.h"

constexpr int64_t lattice_bound = 1 << 22;  // steps in a clip bound
constexpr int64_t lattice_bound_squared = lattice_bound * lattice_bound;
constexpr int64_t error_room = lattice_bound_squared / 1024 * 5;  // Admission of internal/device/plan
constexpr uint64_t too_long = 2 * lattice_bound_squared;

constexpr uint64_t golden_gamma = 0x9e3779b97f4a7c15;

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
__device__ __forceinline__ uint64_t mix(uint64_t z) {
	z += golden_gamma;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

// row_key is lattice.RowKey.
__device__ __forceinline__ uint64_t row_key(uint64_t seed, int parameter, int row) {
	return mix(mix(seed + (uint64_t)parameter * golden_gamma) + (uint64_t)row * golden_gamma);
}

// RoundingWords are the words of one key: the word of element i of a row is start + i·step.
struct RoundingWords {
	unsigned start, step;

	__device__ __forceinline__ RoundingWords(uint64_t key) : start((unsigned)key), step((unsigned)(key >> 32)) {}
	__device__ __forceinline__ unsigned of(int i) const { return start + step * (unsigned)i; }
};

// dither is x·scale plus the word as a number from −½ to ½. The integer next to it is the rounded
// number.
__device__ __forceinline__ float dither(float x, float scale, unsigned word) {
	return __fadd_rn(__fmul_rn(x, scale), __fmul_rn((float)(int)word, 0x1p-32f));
}

// add_square adds the square of a rounded number to a sum that stays at too_long once it is above
// the largest norm. Numbers beyond the bound, infinities and NaN are not converted or squared.
__device__ __forceinline__ void add_square(uint64_t &sum, float dithered) {
	uint64_t square = too_long;
	if (fabsf(dithered) <= (float)lattice_bound + 0.5f) {  // ½ rounds to even
		int64_t v = __float2int_rn(dithered);
		square = (uint64_t)(v * v);
	}
	sum += square;
	if (sum > too_long) sum = too_long;
}

constexpr int built_block = 4096;  // elements of a built gradient that share a key

// What a rounding takes from a budget if its squared norm is not known.
constexpr int64_t out_of_range = -1, other_rounding = -2;

// within is a sum of add_square over a block's threads; out_of_range if it exceeds the square of the
// bound.
__device__ __forceinline__ int64_t within(uint64_t sum) { return sum <= (uint64_t)lattice_bound_squared ? (int64_t)sum : out_of_range; }

// RecordRounding determines how a record's part of a sum is rounded.
struct RecordRounding {
	uint64_t seed;
	float scale;  // lattice steps in a unit of the gradient
	int adds;     // 0: the record adds nothing
};

// Budget is what parts of a record may still take, as in internal/device/plan.
struct Budget {
	int64_t norm;    // the square of the bound, less what was taken
	int64_t errors;  // what estimates of errors may still add up to
};

// Contribution is what a sum of an exact program reads of the records in its rows, and where it
// takes squared norms from.
struct Contribution {
	const float *factors;
	const uint64_t *seeds;
	const double *steps;         // of the parameter
	const int *group;            // of the parameter
	Budget *budgets;             // of the records, in the first group
	int *counts;                 // parts that were rounded again, parts that were omitted, records that a block admitted
	RecordRounding *roundings;   // of the records: the result
	int records;                 // of the microbatch: the distance between the budgets of two groups
	int number;                  // of the use of a parameter

	__device__ __forceinline__ Budget *budget(int r) const { return budgets + (int64_t)*group * records + r; }
};

// choose_rounding chooses the rounding of record r's part, and takes its squared norm from the
// record's budget of its group, as type part of internal/device/cpu does. All threads of the block call
// it. squares(scale, seed) returns, to all threads, the squared norm of the integers that a
// rounding gives, or out_of_range; it contains a barrier. If it returns other_rounding, the caller
// chooses in another way: choose_rounding returns false and takes, counts and writes nothing. A part
// that is too long is rounded again with a smaller factor and other words, and then omitted. Only the
// record's own operands, factor, word and budget decide. It returns whether the record adds its part.
template <class Squares> __device__ __forceinline__ bool choose_rounding(const Contribution &c, int r, Squares squares) {
	double scale = (double)c.factors[r] * *c.steps;
	Budget *budget = c.budget(r);
	const int64_t left = budget->norm;
	bool tried = false;
#pragma unroll 1
	for (int attempt = 0; attempt < 2 && scale > 0; attempt++) {
		const uint64_t seed = row_key(c.seeds[r], c.number, attempt);
		const int64_t taken = squares(scale, seed);
		if (taken == other_rounding) return false;
		if (taken >= 0 && taken <= left) {
			if (threadIdx.x == 0) {
				budget->norm = left - taken;
				c.roundings[r] = {seed, (float)scale, 1};
				if (attempt > 0) atomicAdd(&c.counts[0], 1);
			}
			return true;
		}
		double shrink = 0.5;
		if (taken >= 0) shrink = min(shrink, sqrt((double)left / (double)taken));
		scale *= shrink;
		tried = true;
	}
	if (threadIdx.x == 0) {
		c.roundings[r] = {0, 0, 0};
		if (tried) atomicAdd(&c.counts[1], 1);
	}
	return false;
}

// first_scale is the scale of the first attempt of record r; not above 0 if the record adds nothing.
__device__ __forceinline__ double first_scale(const Contribution &c, int r) { return (double)c.factors[r] * *c.steps; }

// BuiltGradients are gradients of records in float32. Words of 4096 elements share a key.
struct BuiltGradients {
	const float *rows;
	uint64_t *squares;  // of each record: sums of the squares of the first rounding's chunks
	int size, chunks;   // elements and chunks of a gradient

	// add_squares adds to a thread's sum the squares of a rounding of one of some chunks of record r.
	__device__ __forceinline__ void add_squares(uint64_t &sum, int r, int chunk, int of, float scale, uint64_t seed) const {
		const float *row = rows + (long long)r * size;
		const int blocks = (size + built_block - 1) / built_block, each = (blocks + of - 1) / of;
		if (scale == 0) return;
		for (int b = chunk * each; b < min(blocks, (chunk + 1) * each); b++) {
			const RoundingWords words(row_key(seed, 0, b));
			const int from = b * built_block, n = min(built_block, size - from);
			for (int i = threadIdx.x; i < n; i += blockDim.x)
				add_square(sum, dither(row[from + i], scale, words.of(i)));
		}
	}
};

// Admission is a part of a contribution that takes from the records' budgets.
struct Admission {
	Contribution contribution;
	const void *rows;  // RowSum of rounded_rows.cu; null: built gradients
	BuiltGradients built;
};

// add_steps adds to an integer sum. Integers have the same sum in every order.
__device__ __forceinline__ void add_steps(int64_t *sum, int64_t steps) {
	if (steps != 0) atomicAdd((unsigned long long *)sum, (unsigned long long)steps);
}
