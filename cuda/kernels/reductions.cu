// Reductions: squared norms of rows, weighted sums of rows, inner products.
//
// Reads stored gradients of records [records, size], or the rows of records. Writes one
// number per row, one per column, or one number. All kernels read their operands once
// and are bound by memory: 4 bytes per element at 3.35 TB/s, 20 µs for 256 records of
// 65536. Squares are added in double, where none overflows or underflows: a conversion
// and a multiplication per element, which cost less than reading it on every GPU with at
// least one double operation per 64 float operations.
#include "device.h"
#include "squares.h"
#include "each.h"

// row_squares computes the squared norms of rows of n elements. A block processes one
// chunk of a row; sum_chunks adds up the chunks of rows that have several.
KERNEL LAUNCH_BOUNDS(256) row_squares(float *out, double *chunks, const float *x, int n, int chunk) {
	SHARED(double, partial, 32);
	int from = blockIdx.y * chunk;
	double sum = squares(partial, x + (long long)blockIdx.x * n + from, min(chunk, n - from));
	if (threadIdx.x == 0) {
		if (chunks)
			chunks[(long long)blockIdx.x * gridDim.y + blockIdx.y] = sum;
		else
			out[blockIdx.x] = (float)sum;
	}
}

KERNEL sum_chunks(float *out, const double *chunks, int rows, int count) {
	EACH(r, rows) {
		double sum = 0;
		for (int i = 0; i < count; i++)
			sum += chunks[r * count + i];
		out[r] = (float)sum;
	}
}

// rank_one computes the squared norm of a record with one row: ‖a⊗δ‖² = ‖a‖²‖δ‖².
KERNEL LAUNCH_BOUNDS(256) rank_one(float *out, const float *a, const float *delta, int rows, int columns, double operand_share) {
	SHARED(double, partial, 32);
	double left = squares(partial, a + (long long)blockIdx.x * rows, rows);
	double right = squares(partial, delta + (long long)blockIdx.x * columns, columns);
	if (threadIdx.x == 0)
		out[blockIdx.x] = (float)(left * right + operand_share * (left + right));
}

// weighted_rows is Σ_r c_r·row_r: a block processes 32 columns and a slice of the rows,
// and each of its eight warps every eighth row of it. add_slices adds the slices' sums.
// A row of factor 0 is not read.
KERNEL LAUNCH_BOUNDS(256) weighted_rows(float *out, const float *x, const float *factors, int rows, int columns, int slice, int add) {
	SHARED(float, sums, 8 * 32);
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const int column = blockIdx.x * 32 + lane;
	const int from = blockIdx.y * slice, to = min(rows, from + slice);
	float sum = 0;
	for (int first = from + warp; first < to; first += 64) {
		float factor[8], v[8];  // loads in flight
#pragma unroll
		for (int j = 0; j < 8; j++)
			factor[j] = first + 8 * j < to ? factors[first + 8 * j] : 0;
#pragma unroll
		for (int j = 0; j < 8; j++)
			v[j] = factor[j] != 0 && column < columns ? x[(first + 8 * j) * (long long)columns + column] : 0;
#pragma unroll
		for (int j = 0; j < 8; j++)
			sum = fmaf(factor[j], v[j], sum);
	}
	sums[threadIdx.x] = sum;
	__syncthreads();
	if (warp > 0 || column >= columns) return;
	float *at = out + (long long)blockIdx.y * columns + column;
	sum = 0;
	for (int w = 0; w < 8; w++)
		sum += sums[w * 32 + lane];
	*at = add ? *at + sum : sum;
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
