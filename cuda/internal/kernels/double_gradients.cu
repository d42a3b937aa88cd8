// Squared norms of a parameter with several uses. Each record's gradient is built in
// double and squared: where uses cancel, float would find far less than the norm.
//
// The kernels read the operands of the uses, build the gradient of one use after the
// other in scratch memory [records, size], add the uses of a record before they are
// squared, so that all cross terms are included, and write the squared norms. Each norm
// includes a bound on the rounding errors, including those of the float sums of
// gradients.
//
// Shape. A use is built in the layout of its own view and added to the parameter's
// layout through a map. Every element has one thread, which adds in an order that
// depends only on the record's shape. The kernels process as many records at a time as
// scratch memory allows. They are rare (programs use them where a parameter has uses of
// two kinds) and bound by memory: a parameter of 640000 elements is written and read
// some six times, 30 MB or 10 µs per record at 3.35 TB/s.
#include "double.h"
#include "each.h"
#include "squares.h"

// double_product computes Σ_t a_t ⊗ δ_t over the rows of a record, 64 by 64 elements per
// block, a quarter of them per warp.
KERNEL LAUNCH_BOUNDS(128) double_product(double *out, const float *a, const float *delta, int rows, int height, int width) {
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, across = (width + 63) / 64;
	const int y = blockIdx.x / across * 64 + warp / 2 * 32, x = blockIdx.x % across * 64 + warp % 2 * 32;
	a += (long long)blockIdx.y * rows * height;
	delta += (long long)blockIdx.y * rows * width;
	out += (long long)blockIdx.y * height * width;
	double sum[4][4][2] = {};
	for (int t = 0; t < rows; t += 4) {
		const int row = t + lane % 4;
		double left[4], right[4];
#pragma unroll
		for (int i = 0; i < 4; i++) {
			const int m = y + 8 * i + lane / 4, n = x + 8 * i + lane / 4;
			left[i] = row < rows && m < height ? a[(long long)row * height + m] : 0;
			right[i] = row < rows && n < width ? delta[(long long)row * width + n] : 0;
		}
#pragma unroll
		for (int i = 0; i < 4; i++)
#pragma unroll
			for (int j = 0; j < 4; j++)
				add_products(sum[i][j], left[i], right[j]);
	}
#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int j = 0; j < 4; j++)
#pragma unroll
			for (int c = 0; c < 2; c++) {
				const int m = y + 8 * i + lane / 4, n = x + 8 * j + lane % 4 * 2 + c;
				if (m < height && n < width) out[(long long)m * width + n] = sum[i][j][c];
			}
}

// double_channels computes Σ_t δ_t, or Σ_t a_t ⊙ δ_t if a is not null, one warp per
// record and channel.
KERNEL LAUNCH_BOUNDS(128) double_channels(double *out, const float *a, const float *delta, int records, int rows, int channels, int inner) {
	const int lane = threadIdx.x % 32;
	const long long sums = (long long)records * channels;
	for (long long at = blockIdx.x * 4ll + threadIdx.x / 32; at < sums; at += gridDim.x * 4ll) {
		const long long first = (at / channels * rows * channels + at % channels) * inner;
		double sum = 0;
		for (int t = 0; t < rows; t++)
			for (int j = lane; j < inner; j += 32) {
				const long long i = first + (long long)t * channels * inner + j;
				sum = fma(a ? (double)a[i] : 1.0, (double)delta[i], sum);
			}
		sum = warp_sum(sum);
		if (lane == 0) out[at] = sum;
	}
}

// double_lookups adds the rows of Δ to the rows of a zeroed table that the indices name,
// in their order; bag neighbouring indices use the same row. A thread processes one
// column, a block 128 columns of one record.
KERNEL LAUNCH_BOUNDS(128) double_lookups(double *out, const float *index, const float *delta, int rows, int vocabulary, int width, int bag) {
	const int column = blockIdx.x * 128 + threadIdx.x;
	if (column >= width) return;
	index += (long long)blockIdx.y * rows;
	delta += (long long)blockIdx.y * (rows / bag) * width;
	out += (long long)blockIdx.y * vocabulary * width;
	for (int t = 0; t < rows; t++) {
		const float v = index[t];
		if (v >= 0 && v < vocabulary && truncf(v) == v)
			out[(long long)v * width + column] += delta[(long long)(t / bag) * width + column];
	}
}

// double_add adds the elements of a view to a parameter, or writes them if add is 0.
// Element i of the parameter gets the view's elements from[first[i]] …
// from[first[i+1]-1]; if first is null, it gets element i.
KERNEL double_add(double *sum, const double *view, const int *first, const int *from, int records, int size, int elements, int add) {
	EACH(i, (long long)records * elements) {
		const long long record = i / elements;
		const int e = (int)(i - record * elements), end = first ? first[e + 1] : e + 1;
		double total = add ? sum[i] : 0;
		for (int n = first ? first[e] : e; n < end; n++)
			total += view[record * size + (from ? from[n] : n)];
		sum[i] = total;
	}
}

// double_squares adds up the squares of one chunk of a record's gradient.
KERNEL LAUNCH_BOUNDS(256) double_squares(double *chunks, const double *gradient, int size, int chunk) {
	SHARED(double, partial, 32);
	gradient += (long long)blockIdx.y * size;
	const int to = min(size, (int)(blockIdx.x + 1) * chunk);
	double sum = 0;
	for (int i = blockIdx.x * chunk + threadIdx.x; i < to; i += 256)
		sum = fma(gradient[i], gradient[i], sum);
	sum = block_sum(partial, sum);
	if (threadIdx.x == 0) chunks[(long long)blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

// double_bound adds one use to the bound on a record's rounding error, relative·‖A‖‖Δ‖
// or, without A, relative·‖Δ‖, and to the squared norms of its operands.
KERNEL LAUNCH_BOUNDS(256) double_bound(double *bound, double *operands, const float *a, const float *delta, int na, int nd, double relative, int add) {
	SHARED(double, partial, 32);
	const int r = blockIdx.x;
	double signals = squares(partial, delta + (long long)r * nd, nd), rows = a ? squares(partial, a + (long long)r * na, na) : 0;
	if (threadIdx.x != 0) return;
	bound[r] = (add ? bound[r] : 0) + relative * sqrt(a ? rows * signals : signals);
	operands[r] = (add ? operands[r] : 0) + rows + signals;
}

// double_norms adds up the chunks and the bounds of every record.
KERNEL double_norms(float *out, const double *chunks, const double *bound, const double *operands, double operand_share, int records, int count) {
	EACH(r, records) {
		double sum = 0;
		for (int i = 0; i < count; i++)
			sum += chunks[r * count + i];
		double norm = sqrt(sum) + bound[r];
		out[r] = (float)(norm * norm + operand_share * operands[r]);
	}
}
