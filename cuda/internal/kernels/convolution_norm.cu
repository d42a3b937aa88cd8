// Squared norms of records' gradients of a convolution's weight, computed in double. The
// norm must be that of the exact gradient: where the gradient's terms cancel, float would
// find a norm that is far too small.
//
// convolution_gram reads images and Δ, and writes inner products of Gram matrices, from
// which gram_norms computes the norms without building the gradient (gram.cu). The rows
// of A are the patches of a record's images. convolution_double reads the same and
// writes the gradients in double; programs use it where a weight has several uses.
//
// Shape. convolution_gram is shaped like product_gram. Predicted for wrn16-4-16's last
// stage (64 rows of 2304 + 256, 16 records): 84 M multiplications in double, 2.5 µs at
// the 33 T/s of an H100's tensor cores; but 48 blocks, each alone on a multiprocessor
// with 27 thousand cycles of work, take 16 µs. A block of convolution_double computes 32
// by 32 elements.
#include "gram_float.h"
#include "gram_split.h"
#include "patch.h"

namespace {

// RecordImages are the images of some records, and the gradients of their results, Δ.
struct RecordImages {
	Images images;
	const PatchOffset *taps, *corners;
	const float *delta;
	Divider area; // divides a row of A or Δ into its image and its position
	int rows;     // of a record
	int groups;
	int width;    // elements of a patch of a group
	int outputs;  // of a group

	// position_of returns the image and the position of a row of a record.
	__device__ __forceinline__ int position_of(int record, int row, int &image) const {
		int position;
		image = divide(area, record * rows + row, position);
		return position;
	}
};

// PatchRows are the rows of A of one record and group.
struct PatchRows {
	static constexpr Access access = Access::across_rows;
	const RecordImages &p;
	int record, group;

	struct Row {
		const float *corner;
		unsigned mask;
	};
	__device__ __forceinline__ Row row(int i) const {
		int image, position = p.position_of(record, min(i, p.rows - 1), image);
		PatchOffset corner = p.corners[position];
		const float *data = p.images.data + image * p.images.image_size + group * p.images.group_size;
		return {data + corner.bytes / 4, i < p.rows ? corner.mask : 0};
	}
	__device__ __forceinline__ float element(const Row &r, int k) const {
		return k < p.width ? load_tap(r.corner, r.mask, p.taps[k].bytes, p.taps[k].mask) : 0.0f;
	}
	__device__ __forceinline__ float4 quad(const Row &r, int k) const {
		return make_float4(element(r, k), element(r, k + 1), element(r, k + 2), element(r, k + 3));
	}
};

// SignalRows are the rows of Δ.
struct SignalRows {
	static constexpr Access access = Access::across_rows;
	const RecordImages &p;
	int record, group;

	using Row = const float *; // null outside
	__device__ __forceinline__ Row row(int i) const {
		if (i >= p.rows) return nullptr;
		int image, position = p.position_of(record, i, image);
		return p.delta + (image * p.groups + group) * p.outputs * (int)p.area.by + position;
	}
	__device__ __forceinline__ float element(Row r, int k) const { return r && k < p.outputs ? r[k * (int)p.area.by] : 0.0f; }
	__device__ __forceinline__ float4 quad(Row r, int k) const {
		return make_float4(element(r, k), element(r, k + 1), element(r, k + 2), element(r, k + 3));
	}
};

} // namespace

KERNEL LAUNCH_BOUNDS(128, 2) convolution_gram(Batch<GramPart<double, RecordImages>> batch) {
	const BatchBlock block(batch);
	const Gram<double> g = batch.arguments[block.part].gram;
	const RecordImages p = batch.arguments[block.part].rows;
	const int item = block.x / g.pairs, record = item / p.groups, group = item % p.groups;
	if (g.is_selected(record)) inner_product(g, PatchRows{p, record, group}, SignalRows{p, record, group}, block.x, p.width, p.outputs);
}
KERNEL LAUNCH_BOUNDS(128, 2) convolution_gram_split(Batch<GramPart<double, RecordImages>> batch) {
	const BatchBlock block(batch);
	const Gram<double> g = batch.arguments[block.part].gram;
	const RecordImages p = batch.arguments[block.part].rows;
	const int item = block.x / g.pairs, record = item / p.groups, group = item % p.groups;
	inner_product_split(g, PatchRows{p, record, group}, SignalRows{p, record, group}, block.x, p.width, p.outputs);
}
KERNEL LAUNCH_BOUNDS(128, 2) convolution_gram_float_64(Batch<GramPart<float, RecordImages>> batch) {
	const BatchBlock block(batch);
	const Gram<float> g = batch.arguments[block.part].gram;
	const RecordImages p = batch.arguments[block.part].rows;
	const int item = block.x / g.pairs, record = item / p.groups, group = item % p.groups;
	inner_product_float<Tile64x64>(g, PatchRows{p, record, group}, SignalRows{p, record, group}, block.x, p.width, p.outputs);
}

// convolution_double writes a tile of 32 outputs by 32 elements of the patches for each
// record and group; there are `across` tiles along the patches.
KERNEL LAUNCH_BOUNDS(256) convolution_double(double *gradient, RecordImages p, int across) {
	constexpr int tile = 32, stride = tile + 1;
	SHARED(double, patches, tile * stride);
	SHARED(double, signals, tile * stride);
	int record = blockIdx.y, group = blockIdx.z;
	int first = blockIdx.x / across * tile, left = blockIdx.x % across * tile;
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	int i = threadIdx.x / 16, j = threadIdx.x % 16;
	PatchRows patch_rows{p, record, group};
	SignalRows signal_rows{p, record, group};
	double sum[2][2] = {};
	for (int r0 = 0; r0 < p.rows; r0 += tile) {
		PatchRows::Row patch = patch_rows.row(r0 + lane);
		SignalRows::Row signal = signal_rows.row(r0 + lane);
#pragma unroll
		for (int n = warp; n < tile; n += 8) {
			signals[lane * stride + n] = signal_rows.element(signal, first + n);
			patches[lane * stride + n] = patch_rows.element(patch, left + n);
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
