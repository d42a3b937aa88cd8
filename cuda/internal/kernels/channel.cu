// Scales, shifts and sums of channels. A tensor with channels is [rows, channels, inner]
// in memory; each channel has one scale and one shift.
//
// channel_sums reads Δ, or A and Δ, and optional clip factors; it writes the sums over
// rows and inner elements: those of every record (its gradient of a shift or of a
// scale), or the sum over all records, each multiplied by its clip factor. channel_norms
// writes the squared norms of the records' gradients.
//
// Shape. Memory is the limit. Sums read 4
// bytes per element, 8 where two tensors are multiplied, and write very little: 20 µs
// for 16.8 M elements (256 sequences of 128 rows of 512) at 3.35 TB/s. Terms are added
// in double: a conversion and 3 operations per element, half of the cycles in which an
// H100's memory delivers them (16 and 64 a cycle).
//
// A block processes neighbouring channels of a group of rows. The group is a record or,
// for sums over all records, a part of the rows: some hundred parts fill the GPU, each
// writes its sums in double, and a second kernel adds the parts in order. If inner is 1,
// neighbouring threads read neighbouring channels; if it is larger, up to 32 lanes share
// a channel's run of inner elements. The remaining threads stride over rows, and their
// sums are added in a tree.
#include "batch.h"
#include "device.h"
#include "divide.h"
#include "each.h"
#include "reduce.h"

struct Channels {
	int rows, channels, inner;
	Divider by_record;  // divides by the rows of a record
	int group;          // rows of a group
	int width;          // channels of a block
	int lanes;          // threads that share a run of inner elements, a power of two
	int tiles;          // number of tiles of `width` channels
	int threads;        // of a block that process elements
};

// ThreadPosition is a thread's position in its block, which processes a tile of the
// channels of a group: its channel, and its first row and stride.
struct ThreadPosition {
	int channel, width;  // index in the tile, and the tile's number of channels
	int lane, row, rows;
	int first, group;
	bool idle;

	__device__ ThreadPosition(const Channels &c, int group, int tile) : first(tile * c.width), group(group) {
		width = min(c.width, c.channels - first);
		lane = threadIdx.x % c.lanes;
		int place = threadIdx.x / c.lanes;
		channel = place % width;
		row = place / width;
		rows = c.threads / c.lanes / width;
		idle = row >= rows;
	}
	// owns_sum reports whether channel_total gives this thread its channel's sum.
	__device__ bool owns_sum() const { return lane == 0 && row == 0; }
};

// channel_total adds up over the threads of a channel; the owner of the sum gets it.
template <class S> __device__ __forceinline__ double channel_total(S &sums, const ThreadPosition &s, int lanes, double x) {
	for (int step = lanes / 2; step > 0; step /= 2)
		x += __shfl_xor_sync(0xffffffff, x, step);
	if (s.rows == 1)
		return x;
	int place = s.row * s.width + s.channel;
	bool has_sum = s.lane == 0 && !s.idle;
	if (has_sum)
		sums[place] = x;
	int span = 1;
	while (2 * span < s.rows)
		span *= 2;
	for (; span > 0; span /= 2) {
		__syncthreads();
		if (has_sum && s.row < span && s.row + span < s.rows) {
			double other = sums[place + span * s.width];
			x += other;
			sums[place] = x;
		}
	}
	__syncthreads();
	return x;
}

// Sum is Σ x, and Σ |x| where rounding errors must be bounded.
struct Sum {
	double value = 0, size = 0;

	template <bool bounded> __device__ void add(double x, double factor) {
		value += factor * x;
		if (bounded)
			size += fabs(x);
	}
};

// thread_sum adds up one thread's elements of a channel. Rows of factor 0 are not read.
template <bool bounded>
__device__ __forceinline__ Sum thread_sum(const Channels &c, const ThreadPosition &s, const float *a, const float *delta, const float *factors) {
	Sum sum;
	if (s.idle)
		return sum;
	int to = min((s.group + 1) * c.group, c.rows), channel = s.first + s.channel;
	if (c.inner == 1) {
#pragma unroll 4
		for (int r = s.group * c.group + s.row; r < to; r += s.rows) {
			float factor = factors ? factors[quotient(c.by_record, r)] : 1;
			if (factor == 0)
				continue;
			int at = r * c.channels + channel;
			sum.add<bounded>(a ? (double)a[at] * delta[at] : delta[at], factor);
		}
		return sum;
	}
	for (int r = s.group * c.group + s.row; r < to; r += s.rows) {
		float factor = factors ? factors[quotient(c.by_record, r)] : 1;
		if (factor == 0)
			continue;
		int base = (r * c.channels + channel) * c.inner;
#pragma unroll 4
		for (int j = s.lane; j < c.inner; j += c.lanes)
			sum.add<bounded>(a ? (double)a[base + j] * delta[base + j] : delta[base + j], factor);
	}
	return sum;
}

__device__ __forceinline__ void store_sum(float *out, double sum, bool accumulate) { *out = (float)(accumulate ? *out + sum : sum); }

struct ChannelSums {
	float *out;
	double *partial;
	const float *a, *delta, *factors;
	Channels c;
	float scale;
	int accumulate;
};

// channel_sums computes the sums of every group, [groups, channels], and writes them to
// out, or to partial if it is not null. It is launched in batches: so are the gradients of
// a scale and of a shift, which read the same Δ.
KERNEL LAUNCH_BOUNDS(256) channel_sums(Batch<ChannelSums> batch) {
	SHARED(double, sums, 256);
	const BatchBlock block(batch);
	const ChannelSums p = batch.arguments[block.part];
	const ThreadPosition s(p.c, block.x / p.c.tiles, block.x % p.c.tiles);
	const double sum = channel_total(sums, s, p.c.lanes, thread_sum<false>(p.c, s, p.a, p.delta, p.factors).value);
	if (!s.owns_sum())
		return;
	const int at = s.group * p.c.channels + s.first + s.channel;
	if (p.partial)
		p.partial[at] = sum;
	else
		store_sum(p.out + at, sum * p.scale, p.accumulate);
}

// channel_parts adds up the sums of all parts of a sum; each part is a row of partial.
KERNEL LAUNCH_BOUNDS(256) channel_parts(Batch<ChannelSums> batch) {
	SHARED(double, sums, 256);
	const BatchBlock block(batch);
	const ChannelSums p = batch.arguments[block.part];
	const ThreadPosition s(p.c, 0, block.x);
	double sum = 0;
	if (!s.idle) {
#pragma unroll 4
		for (int r = s.row; r < p.c.rows; r += s.rows)
			sum += p.partial[r * p.c.channels + s.first + s.channel];
	}
	sum = channel_total(sums, s, p.c.lanes, sum);
	if (s.owns_sum())
		store_sum(p.out + s.first + s.channel, sum * p.scale, p.accumulate);
}

// norm_upper_bound is an upper bound on a squared norm, from computed sums. Rounding
// changes a sum by at most roundings times the sum of its terms' magnitudes; squares and
// sizes are the sums of the squares of both.
__device__ __forceinline__ float norm_upper_bound(double squares, double sizes, double roundings) {
	double norm = sqrt(squares) + roundings * sqrt(sizes);
	return (float)(norm * norm);
}

// channel_norms computes the squared norm of each group's sums if one block processes
// all its tiles; otherwise blocks process runs of tiles and write each run's squares
// and magnitudes to partial [groups, runs].
KERNEL LAUNCH_BOUNDS(256)
channel_norms(float *out, double2 *partial, const float *a, const float *delta, Channels c, int run, double roundings) {
	SHARED(double, sums, 256);
	int runs = (c.tiles + run - 1) / run;
	int group = blockIdx.x / runs, from = blockIdx.x % runs * run;
	double squares = 0, sizes = 0;
	for (int tile = from; tile < min(from + run, c.tiles); tile++) {
		ThreadPosition s(c, group, tile);
		Sum sum = thread_sum<true>(c, s, a, delta, nullptr);
		double value = channel_total(sums, s, c.lanes, sum.value), size = channel_total(sums, s, c.lanes, sum.size);
		if (s.owns_sum()) {
			squares += value * value;
			sizes += size * size;
		}
	}
	squares = block_sum(sums, squares);
	sizes = block_sum(sums, sizes);
	if (threadIdx.x > 0)
		return;
	if (partial)
		partial[blockIdx.x] = make_double2(squares, sizes);
	else
		out[group] = norm_upper_bound(squares, sizes, roundings);
}

// channel_norms_runs adds up the runs of a group, one warp per group.
KERNEL LAUNCH_BOUNDS(128) channel_norms_runs(float *out, const double2 *partial, int groups, int runs, double roundings) {
	int group = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
	if (group >= groups)
		return;
	double squares = 0, sizes = 0;
	for (int r = threadIdx.x % 32; r < runs; r += 32) {
		double2 p = partial[(long long)group * runs + r];
		squares += p.x;
		sizes += p.y;
	}
	squares = warp_sum(squares);
	sizes = warp_sum(sizes);
	if (threadIdx.x % 32 == 0)
		out[group] = norm_upper_bound(squares, sizes, roundings);
}
