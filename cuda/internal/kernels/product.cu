// Products of matrices in memory: out = act(A·B + bias).
//
// Reads A, B and an optional bias; either matrix may be transposed. Writes the result. B may have numbers of 16 bits: half.h.
// See tile.h for how a product is computed.
//
// Shape. Each operand is read once for every tile of the other dimension, mostly from
// the L2 cache, and the result is written once. Predicted: 2·M·N·K FLOP at 80% of 67
// TFLOP/s where tiles of 128×128 fill the GPU, 60% for tiles of 64×64, 35% for 32×32, or
// the bytes of operands and result at 3.35 TB/s where K is small. A dense layer 784→1000
// at batch 1024 takes 1.6 GFLOP: 30 µs.
#include "batch.h"
#include "matrix.h"
#include "tensor.h"
#include "each.h"

struct Product {
	const float *a, *b, *bias;
	float *out;
	int rows, columns, depth, slice, act;
	int aligned_a, aligned_b, aligned;
	int format, _;  // of B
};

// Operand makes an operand of a matrix of floats, or of numbers of 16 bits.
template <bool row_major> struct Operand;
template <> struct Operand<true> {
	__device__ __forceinline__ static RowMajor of(const float *data, int rows, int depth, int aligned) {
		return {data, rows, depth, depth, aligned != 0};
	}
	__device__ __forceinline__ static HalfRows of(Halves data, int rows, int depth, int aligned) { return {data, rows, depth, aligned != 0}; }
};
template <> struct Operand<false> {
	template <class Numbers> __device__ __forceinline__ static ColumnMajorOf<Numbers> of(Numbers data, int rows, int depth, int) {
		return {data, rows, depth, rows};
	}
};

template <bool halves> __device__ __forceinline__ auto numbers_of_b(const Product &p) {
	if constexpr (halves)
		return halves_at(p.b, p.format);
	else
		return p.b;
}

// multiply computes one block's tile: all of k, or, with gridDim.z > 1, one slice of it,
// which is written to a matrix of its own.
template <class T, bool row_major_a, bool row_major_b, class Math = FP32, bool halves = false>
__device__ __forceinline__ void multiply(const Product &p) {
	int m, n, from = 0, to = p.depth;
	tile_position<T>(blockIdx.x, p.rows, p.columns, m, n);
	if (gridDim.z > 1) {
		from = blockIdx.z * p.slice;
		to = min(to, from + p.slice);
	}
	Result out = {p.out + blockIdx.z * ((long long)p.rows * p.columns), p.bias, p.rows, p.columns, p.act, false, p.aligned != 0};
	product_as<T>(Math{}, Operand<row_major_a>::of(p.a, p.rows, p.depth, p.aligned_a),
		Operand<row_major_b>::of(numbers_of_b<halves>(p), p.columns, p.depth, p.aligned_b), out, m, n, from, to, p.slice);
}

// The letters of a name: n for an operand that is not transposed, t for a transposed one.
KERNEL LAUNCH_BOUNDS(256, 2) product_nn_128(Product p) { multiply<Tile128x128, true, false>(p); }
KERNEL LAUNCH_BOUNDS(256, 2) product_nt_128(Product p) { multiply<Tile128x128, true, true>(p); }
KERNEL LAUNCH_BOUNDS(256, 2) product_tn_128(Product p) { multiply<Tile128x128, false, false>(p); }
KERNEL LAUNCH_BOUNDS(128, 4) product_nn_64(Product p) { multiply<Tile64x64, true, false>(p); }
KERNEL LAUNCH_BOUNDS(128, 4) product_nt_64(Product p) { multiply<Tile64x64, true, true>(p); }
KERNEL LAUNCH_BOUNDS(128, 4) product_tn_64(Product p) { multiply<Tile64x64, false, false>(p); }
KERNEL VARIED_BOUNDS(64, 16) product_nn_32(Product p) { multiply<Tile32x32, true, false>(p); }
KERNEL VARIED_BOUNDS(64, 16) product_nt_32(Product p) { multiply<Tile32x32, true, true>(p); }
KERNEL LAUNCH_BOUNDS(64) product_tn_32(Product p) { multiply<Tile32x32, false, false>(p); }
KERNEL VARIED_BOUNDS(64, 16) product_tt_32(Product p) { multiply<Tile32x32, false, true>(p); }
KERNEL VARIED_BOUNDS(64, 16) product_tn_16(Product p) { multiply<Tile64x16, false, false>(p); }

KERNEL LAUNCH_BOUNDS(256, 1) product_nn_128_tf32(Product p) { multiply<Tile128x128, true, false, TF32>(p); }
KERNEL LAUNCH_BOUNDS(256, 1) product_nt_128_tf32(Product p) { multiply<Tile128x128, true, true, TF32>(p); }
KERNEL LAUNCH_BOUNDS(256, 1) product_tn_128_tf32(Product p) { multiply<Tile128x128, false, false, TF32>(p); }
KERNEL LAUNCH_BOUNDS(128, 3) product_nn_64_tf32(Product p) { multiply<Tile64x64, true, false, TF32>(p); }
KERNEL LAUNCH_BOUNDS(128, 3) product_nt_64_tf32(Product p) { multiply<Tile64x64, true, true, TF32>(p); }
KERNEL LAUNCH_BOUNDS(128, 3) product_tn_64_tf32(Product p) { multiply<Tile64x64, false, false, TF32>(p); }
KERNEL LAUNCH_BOUNDS(256, 1) product_nn_128_bf16(Product p) { multiply<Tile128x128, true, false, BF16>(p); }
KERNEL LAUNCH_BOUNDS(256, 1) product_nt_128_bf16(Product p) { multiply<Tile128x128, true, true, BF16>(p); }
KERNEL LAUNCH_BOUNDS(256, 1) product_tn_128_bf16(Product p) { multiply<Tile128x128, false, false, BF16>(p); }
KERNEL LAUNCH_BOUNDS(128, 2) product_nn_64_bf16(Product p) { multiply<Tile64x64, true, false, BF16>(p); }
KERNEL LAUNCH_BOUNDS(128, 2) product_nt_64_bf16(Product p) { multiply<Tile64x64, true, true, BF16>(p); }
KERNEL LAUNCH_BOUNDS(128, 2) product_tn_64_bf16(Product p) { multiply<Tile64x64, false, false, BF16>(p); }

// Half of the bytes of B: a number of 16 bits.
KERNEL LAUNCH_BOUNDS(256, 2) product_nn_128_half(Product p) { multiply<Tile128x128, true, false, FP32, true>(p); }
KERNEL LAUNCH_BOUNDS(256, 2) product_nt_128_half(Product p) { multiply<Tile128x128, true, true, FP32, true>(p); }
KERNEL LAUNCH_BOUNDS(128, 4) product_nn_64_half(Product p) { multiply<Tile64x64, true, false, FP32, true>(p); }
KERNEL LAUNCH_BOUNDS(128, 4) product_nt_64_half(Product p) { multiply<Tile64x64, true, true, FP32, true>(p); }
KERNEL VARIED_BOUNDS(64, 16) product_nn_32_half(Product p) { multiply<Tile32x32, true, false, FP32, true>(p); }
KERNEL VARIED_BOUNDS(64, 16) product_nt_32_half(Product p) { multiply<Tile32x32, true, true, FP32, true>(p); }
KERNEL LAUNCH_BOUNDS(256, 1) product_nn_128_tf32_half(Product p) { multiply<Tile128x128, true, false, TF32, true>(p); }
KERNEL LAUNCH_BOUNDS(256, 1) product_nt_128_tf32_half(Product p) { multiply<Tile128x128, true, true, TF32, true>(p); }
KERNEL LAUNCH_BOUNDS(128, 3) product_nn_64_tf32_half(Product p) { multiply<Tile64x64, true, false, TF32, true>(p); }
KERNEL LAUNCH_BOUNDS(128, 3) product_nt_64_tf32_half(Product p) { multiply<Tile64x64, true, true, TF32, true>(p); }
KERNEL LAUNCH_BOUNDS(256, 1) product_nn_128_bf16_half(Product p) { multiply<Tile128x128, true, false, BF16, true>(p); }
KERNEL LAUNCH_BOUNDS(256, 1) product_nt_128_bf16_half(Product p) { multiply<Tile128x128, true, true, BF16, true>(p); }
KERNEL LAUNCH_BOUNDS(128, 2) product_nn_64_bf16_half(Product p) { multiply<Tile64x64, true, false, BF16, true>(p); }
KERNEL LAUNCH_BOUNDS(128, 2) product_nt_64_bf16_half(Product p) { multiply<Tile64x64, true, true, BF16, true>(p); }

// add_slices ends a product whose slices were computed separately, with the same
// roundings in the same order as one block would.
struct Slices {
	float *out;
	const float *partial, *bias;
	int size, columns, count, act, add, _;
};

KERNEL add_slices(Batch<Slices> batch) {
	const BatchBlock block(batch);
	const Slices p = batch.arguments[block.part];
	EACH_OF(block, i, p.size) {
		float sum = p.add ? p.out[i] : 0;
		for (int s = 0; s < p.count; s++)
			sum += p.partial[(long long)s * p.size + i];
		if (p.bias) sum += p.bias[(int)i % p.columns];
		p.out[i] = activate(p.act, sum);
	}
}
