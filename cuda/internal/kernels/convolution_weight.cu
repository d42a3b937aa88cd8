// Gradients of a convolution's weight, summed over all records or separate for each
// record.
//
// Reads images, the gradient of the result (called signals) and, for clipped sums, a clip
// factor per record. Writes the gradient: a product of the signals, one row per output
// channel, with patches, one column per element of the kernel, summed over positions. The
// signals of a record are multiplied by its clip factor when they are read. A record of
// factor 0 is not read.
//
// Shape. The sum is long and the result small, so the positions are split into slices
// for separate blocks, and add_parts adds the slices in their order. For sums over all
// records there are enough slices to fill the GPU. For the gradient of one record the
// number of slices depends only on the record's shape, and one block computes them all
// if there are many records: a record's bits do not depend on the others.
//
// In FP32, or from split operands on tensor cores (split.h).
// Predicted in FP32 on an H100, by the assumptions of convolution.cu, for the records'
// gradients: mnist-cnn-256 8 and 4 µs, cifar-abadi-64 17 and 52 µs,
// cifar-tanh-64 11, 50, 22, 38, 16 and 30 µs for its six layers, of which writing takes
// up to 11 µs (38 MB for the last); wrn16-4-16 49 µs for 64 to 64 channels and 38 µs for
// 128 to 128. Sums over the records take the same time or a fifth less, wrn16-4-16's
// last stage 33 µs per layer.
#include "batch.h"
#include "device.h"
#include "matrix.h"
#include "patch.h"
#include "tensor.h"

namespace {

// The positions of an image are padded to a multiple of four, so that four neighbours
// lie in one image; the table of corners is padded with corners that read zeros.
struct WeightGradient {
	Images images;
	const PatchOffset *taps, *corners;
	const float *delta;
	const float *factors; // of records, for clipped sums
	float *out;           // of every sum and slice, one after the other
	Divider positions;    // padded positions of an image
	Divider per_record;   // images per record
	int area;             // positions without padding
	int outputs, width;   // of a group: its channels, the elements of a kernel
	int groups;
	int image_count;      // of a sum
	int slices;           // of a sum that are computed by separate blocks, or 1
	int slice;            // positions of a slice
};

// Position is a position of an image, or the first of four positions. factor is 0 if they
// are not read.
struct Position {
	int image, position;
	float factor;
};

template <bool clipped> __device__ __forceinline__ Position position_at(const WeightGradient &g, int first, int k) {
	Position f;
	bool inside = k < g.image_count * (int)g.positions.by;
	f.image = first + divide(g.positions, inside ? k : 0, f.position);
	f.factor = clipped ? g.factors[quotient(g.per_record, f.image)] : 1.0f;
	if (!inside) f.factor = 0;
	return f;
}

// SignalRows are the rows of the left operand, from one image on: signals. A row outside
// returns the last row's elements, and its results are not used.
template <bool clipped> struct SignalRows {
	static constexpr Access access = Access::single_elements;
	const WeightGradient &g;
	const float *data;
	int first;

	using Row = int; // offset of its first element in an image
	struct Column {
		int from;     // the position of the first row
		float factor; // 0 where nothing is read
	};
	__device__ __forceinline__ Row row(int i) const { return min(i, g.outputs - 1) * g.area; }
	__device__ __forceinline__ Column column(int k) const {
		Position f = position_at<clipped>(g, first, k);
		return {f.image * (g.groups * g.outputs * g.area) + f.position, f.position < g.area ? f.factor : 0};
	}
	__device__ __forceinline__ float element(Row r, const Column &c) const {
		return c.factor == 0 ? 0.0f : clipped ? c.factor * data[c.from + r] : data[c.from + r];
	}
};

// PatchColumns are the rows of the right operand, from one image on: one tap of every
// patch.
template <bool clipped> struct PatchColumns {
	static constexpr Access access = Access::along_rows;
	const WeightGradient &g;
	const float *data;
	int first;

	using Row = PatchOffset;
	__device__ __forceinline__ Row row(int i) const { return g.taps[min(i, g.width - 1)]; }
	__device__ __forceinline__ float4 quad(Row r, int k) const {
		Position f = position_at<clipped>(g, first, k);
		int4 s = load_at<int4>(g.corners, 8 * f.position), t = load_at<int4>(g.corners, 8 * f.position + 16);
		const float *from = data + f.image * g.images.image_size + r.bytes / 4;
		unsigned tap_mask = f.factor == 0 ? ~0u : r.mask;
		return make_float4(load_tap(from, s.y, s.x, tap_mask), load_tap(from, s.w, s.z, tap_mask), load_tap(from, t.y, t.x, tap_mask), load_tap(from, t.w, t.z, tap_mask));
	}
};

struct GradientResult {
	float *data;
	int rows, columns;

	template <int W> __device__ __forceinline__ void store(int m, int n, const float (&v)[W], bool first, bool) const {
		if (m >= rows || n >= columns) return;
		float *to = data + m * columns + n;
		const bool aligned = columns % 4 == 0;
		float w[W] = {};
		if (!first) load_row(w, to, columns - n, aligned);
#pragma unroll
		for (int c = 0; c < W; c++)
			w[c] = first ? v[c] : w[c] + v[c];
		store_row(to, w, columns - n, aligned);
	}
	__device__ __forceinline__ bool needs_finish() const { return false; }
	template <int W> __device__ __forceinline__ void finish(int, int) const {}
};

// sum_tile computes one tile of one group and record: all slices in their order, or one.
template <class T, bool clipped, class Math = FP32> __device__ __forceinline__ void sum_tile(const WeightGradient &g, unsigned x, unsigned y, unsigned z) {
	int group = y, record = z / g.slices, slice = z % g.slices;
	int down = (g.outputs + T::rows - 1) / T::rows;
	int m = x % down * T::rows, n = x / down * T::columns;
	int first = record * g.image_count, terms = g.image_count * g.positions.by;
	SignalRows<clipped> left = {g, g.delta + group * g.outputs * g.area, first};
	PatchColumns<clipped> right = {g, g.images.data + group * g.images.group_size, first};
	GradientResult out = {g.out + ((long long)z * g.groups + group) * g.outputs * g.width, g.outputs, g.width};
	int from = slice * g.slice;
	product_as<T>(Math{}, left, right, out, m, n, from, g.slices == 1 ? terms : min(terms, from + g.slice), g.slice);
}

template <class T, bool clipped, class Math = FP32> __device__ __forceinline__ void sum_tile(const Batch<WeightGradient> &batch) {
	const BatchBlock block(batch);
	const WeightGradient g = batch.arguments[block.part];
	sum_tile<T, clipped, Math>(g, block.x, block.y, block.z);
}

using Tile64x128 = Tile<64, 128, 8, 8, 8>;
using Tile32x64 = Tile<32, 64, 8, 4, 16>;

} // namespace

// The registers of the largest tiles leave no room for the place in a batch.
KERNEL LAUNCH_BOUNDS(256, 2) convolution_weight_128x128(WeightGradient g) { sum_tile<Tile128x128, false>(g, blockIdx.x, blockIdx.y, blockIdx.z); }
KERNEL LAUNCH_BOUNDS(128) convolution_weight_64x128(Batch<WeightGradient> batch) { sum_tile<Tile64x128, false>(batch); }
KERNEL LAUNCH_BOUNDS(128) convolution_weight_64x64(Batch<WeightGradient> batch) { sum_tile<Tile64x64, false>(batch); }
KERNEL LAUNCH_BOUNDS(64) convolution_weight_32x64(Batch<WeightGradient> batch) { sum_tile<Tile32x64, false>(batch); }
KERNEL VARIED_BOUNDS(64, 16) convolution_weight_32x32(Batch<WeightGradient> batch) { sum_tile<Tile32x32, false>(batch); }

KERNEL LAUNCH_BOUNDS(256, 1) convolution_weight_64x128_split(Batch<WeightGradient> batch) { sum_tile<TensorTile64x128, false, SplitTF32>(batch); }
KERNEL LAUNCH_BOUNDS(128, 2) convolution_weight_64x64_split(Batch<WeightGradient> batch) { sum_tile<Tile64x64, false, SplitTF32>(batch); }
KERNEL LAUNCH_BOUNDS(64) convolution_weight_32x64_split(Batch<WeightGradient> batch) { sum_tile<Tile32x64, false, SplitTF32>(batch); }
KERNEL LAUNCH_BOUNDS(64) convolution_weight_32x32_split(Batch<WeightGradient> batch) { sum_tile<Tile32x32, false, SplitTF32>(batch); }

KERNEL LAUNCH_BOUNDS(256, 2) convolution_clipped_128x128(WeightGradient g) { sum_tile<Tile128x128, true>(g, blockIdx.x, blockIdx.y, blockIdx.z); }
KERNEL LAUNCH_BOUNDS(128) convolution_clipped_64x128(Batch<WeightGradient> batch) { sum_tile<Tile64x128, true>(batch); }
KERNEL LAUNCH_BOUNDS(128) convolution_clipped_64x64(Batch<WeightGradient> batch) { sum_tile<Tile64x64, true>(batch); }
KERNEL VARIED_BOUNDS(64, 8) convolution_clipped_32x64(Batch<WeightGradient> batch) { sum_tile<Tile32x64, true>(batch); }
KERNEL VARIED_BOUNDS(64, 16) convolution_clipped_32x32(Batch<WeightGradient> batch) { sum_tile<Tile32x32, true>(batch); }

KERNEL LAUNCH_BOUNDS(256, 1) convolution_clipped_64x128_split(Batch<WeightGradient> batch) { sum_tile<TensorTile64x128, true, SplitTF32>(batch); }
KERNEL LAUNCH_BOUNDS(128, 2) convolution_clipped_64x64_split(Batch<WeightGradient> batch) { sum_tile<Tile64x64, true, SplitTF32>(batch); }
KERNEL LAUNCH_BOUNDS(64) convolution_clipped_32x64_split(Batch<WeightGradient> batch) { sum_tile<Tile32x64, true, SplitTF32>(batch); }
KERNEL LAUNCH_BOUNDS(64) convolution_clipped_32x32_split(Batch<WeightGradient> batch) { sum_tile<Tile32x32, true, SplitTF32>(batch); }

// add_parts adds up the count parts of every run, each of size elements. A block
// processes 32 neighbouring elements, its warps stride over the parts, and the warps'
// sums are added in their order.
struct Parts {
	float *out;
	const float *parts;
	int size, count, add, _;
};

KERNEL LAUNCH_BOUNDS(1024) add_parts(Batch<Parts> batch) {
	SHARED(float, sums, 1024);
	const BatchBlock block(batch);
	const Parts p = batch.arguments[block.part];
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
	long long run = block.y;
	int i = block.x * 32 + lane;
	float sum = 0;
	if (i < p.size)
#pragma unroll 4
		for (int part = warp; part < p.count; part += warps)
			sum += p.parts[(run * p.count + part) * p.size + i];
	sums[threadIdx.x] = sum;
	__syncthreads();
	if (warp > 0 || i >= p.size) return;
	for (int w = 1; w < warps; w++)
		sum += sums[w * 32 + lane];
	float *to = p.out + run * p.size + i;
	*to = p.add ? *to + sum : sum;
}
