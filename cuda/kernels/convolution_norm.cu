// Records' gradients of a convolution's weight in double, for squared norms. The norm
// must be that of the exact gradient; where its terms cancel, float would find far less.
//
// convolution_gram computes the norm without building the gradient, as gram.cu does; the
// rows of A are the patches of a record's images. Predicted for wrn16-4-16's last stage
// (64 rows of 2304 + 256, 16 records): 84 M multiplications in double, 2.5 µs at the 33
// T/s of an H100's tensor cores; but 48 blocks, each alone on a multiprocessor with 27
// thousand cycles of work, take 16 µs.
//
// convolution_exact builds the gradient, 32 by 32 elements per block. Programs use it
// where a weight has several uses.
#include "gram_float.h"
#include "patch.h"

namespace {

// Pictures are the images of some records, and the gradient of their results.
struct Pictures {
	Planes planes;
	const Reach *taps, *corners;
	const float *delta;
	Divider area; // from a row of A or Δ to its image
	int rows;     // of a record
	int groups;
	int width;    // elements of a patch of a group
	int outputs;  // of a group

	// place_of returns the image and the position of a row of a record.
	__device__ __forceinline__ int place_of(int record, int row, int &picture) const {
		int place;
		picture = divide(area, record * rows + row, place);
		return place;
	}
};

// Patches are the rows of A of one record and group.
struct Patches {
	static constexpr Reading reading = Reading::across;
	const Pictures &p;
	int record, group;

	struct Row {
		const float *corner;
		unsigned sides;
	};
	__device__ __forceinline__ Row row(int i) const {
		int picture, place = p.place_of(record, min(i, p.rows - 1), picture);
		Reach corner = p.corners[place];
		const float *data = p.planes.data + picture * p.planes.picture + group * p.planes.group;
		return {data + corner.bytes / 4, i < p.rows ? corner.sides : 0};
	}
	__device__ __forceinline__ float one(const Row &r, int k) const {
		return k < p.width ? tap_at(r.corner, r.sides, p.taps[k].bytes, p.taps[k].sides) : 0.0f;
	}
	__device__ __forceinline__ float4 four(const Row &r, int k) const {
		return make_float4(one(r, k), one(r, k + 1), one(r, k + 2), one(r, k + 3));
	}
};

// Signals are the rows of Δ.
struct Signals {
	static constexpr Reading reading = Reading::across;
	const Pictures &p;
	int record, group;

	using Row = const float *; // null outside
	__device__ __forceinline__ Row row(int i) const {
		if (i >= p.rows) return nullptr;
		int picture, place = p.place_of(record, i, picture);
		return p.delta + (picture * p.groups + group) * p.outputs * (int)p.area.by + place;
	}
	__device__ __forceinline__ float one(Row r, int k) const { return r && k < p.outputs ? r[k * (int)p.area.by] : 0.0f; }
	__device__ __forceinline__ float4 four(Row r, int k) const {
		return make_float4(one(r, k), one(r, k + 1), one(r, k + 2), one(r, k + 3));
	}
};

} // namespace

KERNEL LAUNCH_BOUNDS(128, 2) convolution_gram(Gram<double> g, Pictures p) {
	const int item = blockIdx.x / g.pairs, record = item / p.groups, group = item % p.groups;
	if (g.asked(record)) inner(g, Patches{p, record, group}, Signals{p, record, group}, blockIdx.x % g.pairs, p.width, p.outputs);
}
KERNEL LAUNCH_BOUNDS(128, 2) convolution_gram_float_64(Gram<float> g, Pictures p) {
	const int item = blockIdx.x / g.pairs, record = item / p.groups, group = item % p.groups;
	inner_float<Medium>(g, Patches{p, record, group}, Signals{p, record, group}, blockIdx.x % g.pairs, p.width, p.outputs);
}

// convolution_exact writes a tile of 32 outputs by 32 elements of the patches for each
// record and group; there are `across` tiles along the patches.
KERNEL LAUNCH_BOUNDS(256) convolution_exact(double *gradient, Pictures p, int across) {
	constexpr int tile = 32, stride = tile + 1;
	SHARED(double, patches, tile * stride);
	SHARED(double, signals, tile * stride);
	int record = blockIdx.y, group = blockIdx.z;
	int first = blockIdx.x / across * tile, left = blockIdx.x % across * tile;
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	int i = threadIdx.x / 16, j = threadIdx.x % 16;
	Patches from{p, record, group};
	Signals back{p, record, group};
	double sum[2][2] = {};
	for (int r0 = 0; r0 < p.rows; r0 += tile) {
		Patches::Row patch = from.row(r0 + lane);
		Signals::Row signal = back.row(r0 + lane);
#pragma unroll
		for (int n = warp; n < tile; n += 8) {
			signals[lane * stride + n] = back.one(signal, first + n);
			patches[lane * stride + n] = from.one(patch, left + n);
		}
		__syncthreads();
#pragma unroll 4
		for (int r = 0; r < tile; r++) {
			double a[2], b[2];
#pragma unroll
			for (int n = 0; n < 2; n++) {
				a[n] = signals[r * stride + i + 16 * n];
				b[n] = patches[r * stride + j + 16 * n];
			}
#pragma unroll
			for (int n = 0; n < 4; n++)
				sum[n / 2][n % 2] = fma(a[n / 2], b[n % 2], sum[n / 2][n % 2]);
		}
		__syncthreads();
	}
#pragma unroll
	for (int n = 0; n < 4; n++) {
		int o = first + i + n / 2 * 16, k = left + j + n % 2 * 16;
		if (o < p.outputs && k < p.width)
			gradient[((long long)(record * p.groups + group) * p.outputs + o) * p.width + k] = sum[n / 2][n % 2];
	}
}
