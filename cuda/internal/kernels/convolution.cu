// Convolutions of images, and their gradients with respect to the images.
//
// Reads images (or the gradient of the result), the kernels, a bias, and tables of the
// offsets that make up a patch (patch.h). Writes the result (or the gradient of the
// images). Both are a product of a weight, one row per output channel, with patches, one
// column per position of the result. The patches are read in place, so none is written
// out; an image is read from memory once and from the caches kernel_h·kernel_w times.
//
// Phases. If a stride is more than one, a cell uses only those elements of the kernel
// that are a multiple of the stride away. Cells that use the same elements form a phase,
// a product with fewer steps. No step is spent on zeros between the elements of the
// gradient.
//
// Order. The sum over k is split into slices by its length alone, as tile.h describes, so
// that an image's bits depend neither on its position nor on the number of images. Slices
// are computed by separate blocks where the tiles would leave the GPU idle.
//
// Predicted in FP32 on an H100, with 81% of the instructions of a step multiplying in
// tiles of 128×128, 76% in 64×128, 72% in 64×64, 57 to 69% in those for few channels, of
// which a sixth is lost to waiting, and more where a multiprocessor has fewer than eight
// warps; M×N×K:
//   mnist-cnn-256   conv1  16×50176×64    4 µs   conv2  32×6400×256    7 µs
//   cifar-abadi-64  conv1  64×36864×75   10 µs   conv2  64×9216×1600  67 µs
//   cifar-tanh-64   conv1  32×65536×27    3 µs   conv2  32×65536×288  32 µs
//                   conv3  64×16384×288  15 µs   conv4  64×16384×576  31 µs
//                   conv5 128×4096×576   20 µs   conv6 128×4096×1152  38 µs
//   wrn16-4-16      3×3, 64 to 64 at 32×32 31 µs, 128 at 16×16 38 µs, 256 at 8×8 46 µs;
//                   13 of them and the shortcuts, 0.4 ms forward
// The gradients take as long; the first layer needs none. The bytes are few:
// cifar-tanh-64's second layer reads and writes 8 MB each, 5 µs. On tensor cores
// gathering is the limit: 120 TFLOP/s in tiles of 64×128, 170 in 128×128.
#include "device.h"
#include "activation.h"
#include "each.h"
#include "patch.h"
#include "tensor.h"

namespace {

// Phase is the set of positions of the result that use the same elements of the kernel:
// depth of them, whose taps and weights begin at `first`, and whose corners begin at
// `corners`. The result of the first position is at `out` in a plane; those of the next
// row and column are `down` and `across` further. The tables of taps and weights begin
// with 32 entries that read zeros, and every phase is padded with such entries to a
// multiple of 32.
struct Phase {
	int first, depth, corners;
	Divider area, row; // from a position to its image, from a position of an image to its row
	int out, down, across;
};

struct Convolution {
	Images images;
	const PatchOffset *taps, *corners;
	const int *weights; // offset in a kernel of each tap's weight, in bytes
	const float *kernels;
	const float *bias; // or null
	float *out;
	int kernel, group; // elements between the kernels of two rows, and of two groups
	int rows;          // of a group
	int image_count, groups;
	int plane; // elements of a channel of the result
	int slice, act;
	int phases;
	Phase phase[16];
};

// KernelRows are the rows of the left operand: the kernels. A row outside returns the
// last row's elements, and its results are not used.
struct KernelRows {
	static constexpr Access access = Access::single_elements;
	const float *data;
	const int *weights;
	int rows, stride;

	using Row = int; // offset of its first element
	using Column = const float *;
	__device__ __forceinline__ Row row(int i) const { return min(i, rows - 1) * stride; }
	__device__ __forceinline__ Column column(int k) const {
		return reinterpret_cast<const float *>(reinterpret_cast<const char *>(data) + weights[k]);
	}
	__device__ __forceinline__ float element(Row r, Column c) const { return c[r]; }
};

// PatchColumns are the rows of the right operand, the columns of the product: patches.
struct PatchColumns {
	static constexpr Access access = Access::across_rows;
	const Phase &phase;
	const PatchOffset *taps, *corners;
	const float *data;
	int columns, image_size;

	struct Row {
		const float *corner;
		unsigned mask;
	};
	__device__ __forceinline__ Row row(int i) const {
		int place, n = divide(phase.area, min(i, columns - 1), place);
		PatchOffset corner = corners[place];
		return {data + n * image_size + corner.bytes / 4, i < columns ? corner.mask : 0};
	}
	__device__ __forceinline__ float4 quad(const Row &r, int k) const {
		int4 s = load_at<int4>(taps, 8 * k), t = load_at<int4>(taps, 8 * k + 16);
		return make_float4(load_tap(r.corner, r.mask, s.x, s.y), load_tap(r.corner, r.mask, s.z, s.w),
			load_tap(r.corner, r.mask, t.x, t.y), load_tap(r.corner, r.mask, t.z, t.w));
	}
};

// PlaneResult writes results to their positions in the planes.
struct PlaneResult {
	const Phase &phase;
	float *data;
	const float *bias;
	int rows, columns, image_size, plane, act;

	// position_offset is the offset of the result of position n in the first plane.
	__device__ __forceinline__ int position_offset(int n) const {
		int rest, column;
		int image = divide(phase.area, n, rest);
		int row = divide(phase.row, rest, column);
		return image * image_size + phase.out + row * phase.down + column * phase.across;
	}
	// is_contiguous reports whether four positions from a multiple of four on are
	// neighbours in memory.
	__device__ __forceinline__ bool is_contiguous() const {
		return phase.across == 1 && phase.down == (int)phase.row.by && phase.area.by % 4 == 0;
	}
	template <int W> __device__ __forceinline__ void store(int m, int n, const float (&v)[W], bool first, bool last) const {
		n = opaque(n);  // or positions would be computed before the first step and occupy registers
		if (m >= rows || n >= columns) return;
		float b = last && bias ? bias[m] : 0.0f;
		float *to = data + m * plane;
		if (W == 4 && is_contiguous()) {
			float4 *at = reinterpret_cast<float4 *>(to + position_offset(n));
			float4 w = first ? make_float4(0, 0, 0, 0) : *at;
			*at = make_float4(finish_value(w.x + v[0], b, last), finish_value(w.y + v[1], b, last), finish_value(w.z + v[W - 2], b, last), finish_value(w.w + v[W - 1], b, last));
			return;
		}
#pragma unroll
		for (int c = 0; c < W; c++)
			if (n + c < columns) {
				float *at = to + position_offset(n + c);
				*at = finish_value((first ? 0.0f : *at) + v[c], b, last);
			}
	}
	__device__ __forceinline__ float finish_value(float v, float b, bool last) const {
		v += b;
		return last && act == 1 ? activate(1, v) : v;
	}
	__device__ __forceinline__ bool needs_finish() const { return act > 1; }
	template <int W> __device__ __forceinline__ void finish(int m, int n) const {
		if (m >= rows) return;
		for (int c = n; c < n + W && c < columns; c++) {
			float *at = data + m * plane + position_offset(c);
			*at = activate(act, *at);
		}
	}
};

// convolve computes one tile of one phase and group: all of k, or, with gridDim.z > 1,
// one slice of it, which convolution_add_slices finishes.
template <class T, class Math = FP32> __device__ __forceinline__ void convolve(const Convolution &c) {
	const Phase phase = c.phase[blockIdx.y % c.phases];
	int group = blockIdx.y / c.phases;
	int down = (c.rows + T::rows - 1) / T::rows;
	int m = blockIdx.x % down * T::rows, n = blockIdx.x / down * T::columns;
	int columns = c.image_count * (int)phase.area.by;
	if (n >= columns) return;
	int image_size = c.groups * c.rows * c.plane;
	PlaneResult out = {phase, c.out + group * c.rows * c.plane, c.bias ? c.bias + group * c.rows : nullptr, c.rows, columns, image_size, c.plane, c.act};
	int table = phase.first, from = 0, to = phase.depth;
	if (gridDim.z > 1) {
		out.data += (long long)blockIdx.z * c.image_count * image_size;
		out.bias = nullptr;
		out.act = 0;
		from = blockIdx.z * c.slice;
		to = min(to, from + c.slice);
	}
	if (from >= to) // an empty sum: write zeros
		table = from = 0, to = 1;
	KernelRows left = {c.kernels + group * c.group, c.weights + table, c.rows, c.kernel};
	PatchColumns right = {phase, c.taps + table, c.corners + phase.corners, c.images.data + group * c.images.group_size, columns, c.images.image_size};
	product_as<T>(Math{}, left, right, out, m, n, from, to, c.slice);
}

using Tile16x128 = Tile<16, 128, 4, 8, 16>;
using Tile32x128 = Tile<32, 128, 8, 8, 8>;
using Tile64x128 = Tile<64, 128, 8, 8, 8>;
// On tensor cores a warp computes 32 columns.
using TensorTile32x128 = Tile<32, 128, 8, 4, 16>;

} // namespace

KERNEL LAUNCH_BOUNDS(64) convolution_16x128(Convolution c) { convolve<Tile16x128>(c); }
KERNEL VARIED_BOUNDS(64, 8) convolution_32x128(Convolution c) { convolve<Tile32x128>(c); }
KERNEL LAUNCH_BOUNDS(128) convolution_64x128(Convolution c) { convolve<Tile64x128>(c); }
KERNEL LAUNCH_BOUNDS(256, 2) convolution_128x128(Convolution c) { convolve<Tile128x128>(c); }
KERNEL LAUNCH_BOUNDS(128) convolution_64x64(Convolution c) { convolve<Tile64x64>(c); }
KERNEL VARIED_BOUNDS(64, 16) convolution_32x32(Convolution c) { convolve<Tile32x32>(c); }

KERNEL LAUNCH_BOUNDS(128) convolution_32x128_tf32(Convolution c) { convolve<TensorTile32x128, TF32>(c); }
KERNEL LAUNCH_BOUNDS(256) convolution_64x128_tf32(Convolution c) { convolve<TensorTile64x128, TF32>(c); }
KERNEL LAUNCH_BOUNDS(256) convolution_128x128_tf32(Convolution c) { convolve<Tile128x128, TF32>(c); }
KERNEL LAUNCH_BOUNDS(128) convolution_64x64_tf32(Convolution c) { convolve<Tile64x64, TF32>(c); }
KERNEL LAUNCH_BOUNDS(128) convolution_32x128_bf16(Convolution c) { convolve<TensorTile32x128, BF16>(c); }
KERNEL LAUNCH_BOUNDS(256) convolution_64x128_bf16(Convolution c) { convolve<TensorTile64x128, BF16>(c); }
KERNEL LAUNCH_BOUNDS(256) convolution_128x128_bf16(Convolution c) { convolve<Tile128x128, BF16>(c); }
KERNEL LAUNCH_BOUNDS(128) convolution_64x64_bf16(Convolution c) { convolve<Tile64x64, BF16>(c); }

// convolution_add_slices adds up the slices of a convolution, with the same roundings in
// the same order as one block would.
KERNEL convolution_add_slices(float *out, const float *partial, const float *bias, int size, Divider area, Divider channels, int slices, int act) {
	EACH(i, size) {
		float sum = partial[i];
		for (int s = 1; s < slices; s++)
			sum += partial[(long long)s * size + i];
		if (bias) {
			int channel;
			divide(channels, quotient(area, (int)i), channel);
			sum += bias[channel];
		}
		out[i] = activate(act, sum);
	}
}
