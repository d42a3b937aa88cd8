// Sums of an exact program: each record's clipped gradient is rounded to integers at random, its
// norm is checked in integers, and the integers are added (internal/device/plan, type Contributions).
// begin_contributions gives each record its budget. The instructions of the sums then take the
// squared norms of their parts from the budgets, one instruction after the other.
//
// Built gradients. built_squares reads records' gradients, in float32, and writes the squared norm of
// the first rounding, in chunks; admit of rounded_rows.cu takes it from the budget and writes the
// rounding that it chose; add_built reads the gradients again and adds the rounded numbers. The
// integers are not stored: a word costs two operations, less than four bytes written and read. Words of
// 4096 elements share a key, as in internal/device/cpu. Predicted for an H100: built_squares and add_built read
// the gradients, 8 bytes an element at 3.35 TB/s; 512 records of 26000 elements take 32 µs.
//
// Products, and convolutions with few windows, are added by rounded_rows.cu.
#include "batch.h"
#include "each.h"
#include "lattice.h"

KERNEL begin_contributions(Budget *budgets, int n) {
	EACH(i, n) budgets[i] = {lattice_bound_squared, error_room};
}

KERNEL LAUNCH_BOUNDS(512) built_squares(Batch<Admission> batch) {
	SHARED(uint64_t, partial, 32);
	const BatchBlock block(batch);
	const Admission &p = batch.arguments[block.part];
	const int r = block.y;
	const double scale = first_scale(p.contribution, r);
	uint64_t sum = 0;
	if (scale > 0)
		p.built.add_squares(sum, r, block.x, block.grid_x, (float)scale, row_key(p.contribution.seeds[r], p.contribution.number, 0));
	sum = block_sum(partial, sum);
	if (threadIdx.x == 0) p.built.squares[(long long)r * block.grid_x + block.x] = sum;
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
