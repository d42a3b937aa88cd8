// The gradient of a convolution's weight: a product of signals, a row an output
// channel, with patches, a column an element of the kernel, summed over places. Once
// over all records, where each may have a factor that its signals are multiplied by
// as they are read; or once for every record. A record of factor 0 is not read.
//
// The sum is long and the result small, so the places are cut into slices for blocks
// of their own, and add_parts adds those up in their order: over all records as many
// as fill the card, within a record as many as its shape asks for, so that its bits
// do not depend on the others.
//
// Always FP32. Predicted on an H100 at 55% of 67 TFLOP/s, as convolution.cu counts:
// cifar-tanh-64 takes 2.8, 32, 16, 32, 16 and 32 µs for its six layers, alike for the
// sum and for the records' gradients, which add their writing, 2.4 MB for the second
// (1 µs) and 38 MB for the last (11 µs); cifar-abadi-64 9.6 and 51 µs, with 26 MB for
// the second (8 µs); mnist-cnn-256 2.8 µs each; wrn16-4-16 32 µs a layer of 64 to 64
// channels, and as much for each of the others.
#include "device.h"
#include "each.h"
#include "patch.h"
#include "tile.h"

namespace {

struct WeightGradient {
	Planes planes;
	Places places;
	const Tap *taps;
	const float *delta;
	const float *factors; // of records, or null
	Divider per_record;   // from a place to its record
	float *out;           // of every record and slice, one after the other
	int outputs, width;   // of a group: its channels, the elements of a kernel
	int groups;
	int terms;  // places of one sum: of a record, or all
	int slices; // of a sum
	int slice;  // places of one
	int whole;  // four places from a multiple of four on lie in one picture
	int level;  // and in one row
};

__device__ __forceinline__ float factor(const WeightGradient &g, int place) {
	return g.factors ? g.factors[quotient(g.per_record, place)] : 1.0f;
}

// Signals are the rows on the left, from one place on.
struct Signals {
	static constexpr bool along = true;
	const WeightGradient &g;
	const float *data;
	int first;

	using Row = int; // -1: outside
	__device__ __forceinline__ Row row(int i) const { return i < g.outputs ? i * (int)g.places.area.by : -1; }
	__device__ __forceinline__ int skipped(int place) const {
		return quotient(g.places.area, place) * (g.groups * g.outputs - 1) * (int)g.places.area.by;
	}
	__device__ __forceinline__ float one(Row r, int k) const {
		if (k >= g.terms) return 0;
		float f = factor(g, first + k);
		return f == 0 ? 0.0f : f * data[r + first + k + skipped(first + k)];
	}
	__device__ __forceinline__ float4 four(Row r, int k) const {
		if (r < 0 || k >= g.terms) return make_float4(0, 0, 0, 0);
		if (!g.whole) return make_float4(one(r, k), one(r, k + 1), one(r, k + 2), one(r, k + 3));
		float f = factor(g, first + k);
		if (f == 0) return make_float4(0, 0, 0, 0);
		float4 v = *reinterpret_cast<const float4 *>(data + r + first + k + skipped(first + k));
		return make_float4(f * v.x, f * v.y, f * v.z, f * v.w);
	}
};

// Cells are the columns on the right: one element of every patch, from one place on.
struct Cells {
	static constexpr bool along = true;
	const WeightGradient &g;
	const float *data;
	int first;

	using Row = Tap;
	__device__ __forceinline__ Row row(int i) const { return i < g.width ? g.taps[i] : Tap{0, -(1 << 30), 0}; }
	__device__ __forceinline__ float one(const Row &r, int k) const {
		if (k >= g.terms || factor(g, first + k) == 0) return 0;
		return element(g.planes, data, patch_at(g.planes, g.places, first + k), r);
	}
	__device__ __forceinline__ float4 four(const Row &r, int k) const {
		if (k >= g.terms) return make_float4(0, 0, 0, 0);
		if (!g.level) return make_float4(one(r, k), one(r, k + 1), one(r, k + 2), one(r, k + 3));
		if (factor(g, first + k) == 0) return make_float4(0, 0, 0, 0);
		Patch p = patch_at(g.planes, g.places, first + k);
		int y = p.y + r.y, x = p.x + r.x, step = g.planes.stride_w;
		bool inside = (unsigned)y < (unsigned)g.planes.height;
		const float *at = data + p.cell + r.cell;
		unsigned width = g.planes.width;
		return make_float4(inside && (unsigned)x < width ? at[0] : 0, inside && (unsigned)(x + step) < width ? at[step] : 0,
			inside && (unsigned)(x + 2 * step) < width ? at[2 * step] : 0,
			inside && (unsigned)(x + 3 * step) < width ? at[3 * step] : 0);
	}
};

struct Gradient {
	float *data;
	int rows, columns;

	template <int W> __device__ __forceinline__ void put(int m, int n, const float (&v)[W], bool, bool) const {
		if (m >= rows) return;
#pragma unroll
		for (int c = 0; c < W; c++)
			if (n + c < columns) data[m * columns + n + c] = v[c];
	}
	__device__ __forceinline__ bool again() const { return false; }
	template <int W> __device__ __forceinline__ void again(int, int) const {}
};

// sum computes one tile of one group, record and slice.
template <class T> __device__ __forceinline__ void sum(const WeightGradient &g) {
	int group = blockIdx.y, record = blockIdx.z / g.slices, slice = blockIdx.z % g.slices;
	int down = (g.outputs + T::rows - 1) / T::rows;
	int m = blockIdx.x % down * T::rows, n = blockIdx.x / down * T::columns;
	int first = record * g.terms;
	Signals left = {g, g.delta + group * g.outputs * g.places.area.by, first};
	Cells right = {g, g.planes.data + group * g.planes.group, first};
	Gradient out = {g.out + ((long long)blockIdx.z * g.groups + group) * g.outputs * g.width, g.outputs, g.width};
	int from = slice * g.slice;
	product<T>(left, right, out, m, n, from, min(g.terms, from + g.slice), g.slice);
}

} // namespace

KERNEL LAUNCH_BOUNDS(256) convolution_weight_128x128(WeightGradient g) { sum<Large>(g); }
KERNEL LAUNCH_BOUNDS(128) convolution_weight_64x128(WeightGradient g) { sum<Tile<64, 128, 8, 8, 8>>(g); }
KERNEL LAUNCH_BOUNDS(64) convolution_weight_32x128(WeightGradient g) { sum<Tile<32, 128, 8, 8, 8>>(g); }
KERNEL LAUNCH_BOUNDS(128) convolution_weight_64x64(WeightGradient g) { sum<Medium>(g); }
KERNEL LAUNCH_BOUNDS(64) convolution_weight_32x32(WeightGradient g) { sum<Small>(g); }

// add_parts adds up the parts of every run of size sums: a block has 32 neighbours,
// its warps take turns at the parts, and the warps' sums are added in their order.
KERNEL LAUNCH_BOUNDS(1024) add_parts(float *out, const float *parts, int size, int count, int add) {
	SHARED(float, sums, 1024);
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
	long long run = blockIdx.y;
	int i = blockIdx.x * 32 + lane;
	float sum = 0;
	if (i < size)
#pragma unroll 4
		for (int part = warp; part < count; part += warps)
			sum += parts[(run * count + part) * size + i];
	sums[threadIdx.x] = sum;
	__syncthreads();
	if (warp > 0 || i >= size) return;
	for (int w = 1; w < warps; w++)
		sum += sums[w * 32 + lane];
	float *to = out + run * size + i;
	*to = add ? *to + sum : sum;
}
