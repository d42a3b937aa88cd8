// Reductions: squared norms of rows, weighted sums of rows, inner products.
//
// Reads stored gradients of records [records, size], or the rows of records. Writes one
// number per row, one per column, or one number. All kernels read their operands once
// and are bound by memory: 4 bytes per element at 3.35 TB/s, 20 µs for 256 records of
// 65536. Squares are added in double, where none overflows or underflows: a conversion
// and a multiplication per element, which cost less than reading it on every GPU with at
// least one double operation per 64 float operations.
#include "batch.h"
#include "device.h"
#include "each.h"
#include "squares.h"

struct RowSquares {
	float *out;
	double *chunks;
	const float *x;
	int n, chunk, count;  // elements of a row and of a chunk; chunks of a row
	int threads;          // that add the squares: it determines their order
};

// row_squares computes the squared norms of rows of n elements. A block processes one
// chunk of a row; sum_chunks adds up the chunks of rows that have several.
KERNEL LAUNCH_BOUNDS(256) row_squares(Batch<RowSquares> batch) {
	SHARED(double, partial, 32);
	const BatchBlock block(batch);
	const RowSquares p = batch.arguments[block.part];
	const int from = block.y * p.chunk;
	const double sum = squares(partial, p.x + (long long)block.x * p.n + from, min(p.chunk, p.n - from), p.threads);
	if (threadIdx.x == 0) {
		if (p.chunks)
			p.chunks[(long long)block.x * p.count + block.y] = sum;
		else
			p.out[block.x] = (float)sum;
	}
}

struct Chunks {
	float *out;
	const double *chunks;
	int rows, count;
};

KERNEL sum_chunks(Batch<Chunks> batch) {
	const BatchBlock block(batch);
	const Chunks p = batch.arguments[block.part];
	EACH_OF(block, r, p.rows) {
		double sum = 0;
		for (int i = 0; i < p.count; i++)
			sum += p.chunks[r * p.count + i];
		p.out[r] = (float)sum;
	}
}

struct RankOne {
	float *out;
	float *signals;   // ‖δ‖², which is the squared norm of a bias; null: not wanted
	double *lengths;  // of each record: ‖a‖² and ‖δ‖², for rounding the rows; null: not wanted
	const float *a, *delta;
	double operand_share;
	int rows, columns;
	int threads, _;   // threads that add the squares: it determines their order
};

// rank_one computes the squared norm of a record with one row: ‖a⊗δ‖² = ‖a‖²‖δ‖².
KERNEL LAUNCH_BOUNDS(256) rank_one(Batch<RankOne> batch) {
	SHARED(double, partial, 32);
	const BatchBlock block(batch);
	const RankOne p = batch.arguments[block.part];
	const long long r = block.x;
	const double left = squares(partial, p.a + r * p.rows, p.rows, p.threads);
	const double right = squares(partial, p.delta + r * p.columns, p.columns, p.threads);
	if (threadIdx.x != 0) return;
	p.out[r] = (float)(left * right + p.operand_share * (left + right));
	if (p.signals) p.signals[r] = (float)right;
	if (p.lengths) p.lengths[2 * r] = left, p.lengths[2 * r + 1] = right;
}

// weighted_rows is Σ_r c_r·row_r: a block processes 32 columns and a slice of the rows,
// and each of its eight warps every eighth row of it. add_slices adds the slices' sums.
// A row of factor 0 is not read.
struct WeightedRows {
	float *out;
	const float *x, *factors;
	int rows, columns, slice, add;
};

KERNEL LAUNCH_BOUNDS(256) weighted_rows(Batch<WeightedRows> batch) {
	SHARED(float, sums, 8 * 32);
	const BatchBlock block(batch);
	const WeightedRows p = batch.arguments[block.part];
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const int column = block.x * 32 + lane;
	const int from = block.y * p.slice, to = min(p.rows, from + p.slice);
	float sum = 0;
	for (int first = from + warp; first < to; first += 64) {
		float factor[8], v[8];  // loads in flight
#pragma unroll
		for (int j = 0; j < 8; j++)
			factor[j] = first + 8 * j < to ? p.factors[first + 8 * j] : 0;
#pragma unroll
		for (int j = 0; j < 8; j++)
			v[j] = factor[j] != 0 && column < p.columns ? p.x[(first + 8 * j) * (long long)p.columns + column] : 0;
#pragma unroll
		for (int j = 0; j < 8; j++)
			sum = fmaf(factor[j], v[j], sum);
	}
	sums[threadIdx.x] = sum;
	__syncthreads();
	if (warp > 0 || column >= p.columns) return;
	float *at = p.out + (long long)block.y * p.columns + column;
	sum = 0;
	for (int w = 0; w < 8; w++)
		sum += sums[w * 32 + lane];
	*at = p.add ? *at + sum : sum;
}

// dot_parts and dot compute an inner product in double, one block per part.
KERNEL LAUNCH_BOUNDS(256) dot_parts(double *parts, const float *x, const float *y, int n) {
	SHARED(double, partial, 32);
	double sum = 0;
	EACH(i, n) sum = fma((double)x[i], (double)y[i], sum);
	sum = block_sum(partial, sum);
	if (threadIdx.x == 0)
		parts[blockIdx.x] = sum;
}

KERNEL LAUNCH_BOUNDS(256) dot(float *out, const double *parts, int count) {
	SHARED(double, partial, 32);
	double sum = 0;
	for (int i = threadIdx.x; i < count; i += blockDim.x)
		sum += parts[i];
	sum = block_sum(partial, sum);
	if (threadIdx.x == 0)
		out[0] = (float)sum;
}
