// Products of matrices in memory: out = act(A·B + bias); either operand may be
// transposed. See tile.h for how a product is computed.
//
// Each operand is read once for every tile of the other dimension, mostly from the L2
// cache, and the result is written once. Predicted: 2·M·N·K FLOP at 80% of 67 TFLOP/s
// where tiles of 128×128 fill the GPU, 60% for tiles of 64×64, 35% for 32×32, or the
// bytes of operands and result at 3.35 TB/s where K is small. A dense layer 784→1000 at
// batch 1024 takes 1.6 GFLOP: 30 µs.
#include "matrix.h"
#include "tensor.h"
#include "each.h"

struct Product {
	const float *a, *b, *bias;
	float *out;
	int rows, columns, depth, slice, act;
	int aligned_a, aligned_b, whole;
};

template <bool along> struct Stored;
template <> struct Stored<true> {
	using Type = Along;
	__device__ __forceinline__ static Along of(const float *data, int rows, int depth, int aligned) {
		return {data, rows, depth, depth, aligned != 0};
	}
};
template <> struct Stored<false> {
	using Type = Across;
	__device__ __forceinline__ static Across of(const float *data, int rows, int depth, int) {
		return {data, rows, depth, rows};
	}
};

// multiply computes one block's tile: all of k, or, with gridDim.z > 1, one slice of it,
// which is written to a matrix of its own.
template <class T, bool along_a, bool along_b, class Math = Exact> __device__ __forceinline__ void multiply(const Product &p) {
	int m, n, from = 0, to = p.depth;
	place<T>(blockIdx.x, p.rows, p.columns, m, n);
	if (gridDim.z > 1) {
		from = blockIdx.z * p.slice;
		to = min(to, from + p.slice);
	}
	Result out = {p.out + blockIdx.z * ((long long)p.rows * p.columns), p.bias, p.rows, p.columns, p.act, false, p.whole != 0};
	product_as<T>(Math{}, Stored<along_a>::of(p.a, p.rows, p.depth, p.aligned_a),
		Stored<along_b>::of(p.b, p.columns, p.depth, p.aligned_b), out, m, n, from, to, p.slice);
}

// Names: n for an operand as it is, t for a transposed one.
KERNEL LAUNCH_BOUNDS(256, 2) product_nn_128(Product p) { multiply<Large, true, false>(p); }
KERNEL LAUNCH_BOUNDS(256, 2) product_nt_128(Product p) { multiply<Large, true, true>(p); }
KERNEL LAUNCH_BOUNDS(256, 2) product_tn_128(Product p) { multiply<Large, false, false>(p); }
KERNEL LAUNCH_BOUNDS(128, 4) product_nn_64(Product p) { multiply<Medium, true, false>(p); }
KERNEL LAUNCH_BOUNDS(128, 4) product_nt_64(Product p) { multiply<Medium, true, true>(p); }
KERNEL LAUNCH_BOUNDS(128, 4) product_tn_64(Product p) { multiply<Medium, false, false>(p); }
KERNEL LAUNCH_BOUNDS(64) product_nn_32(Product p) { multiply<Small, true, false>(p); }
KERNEL LAUNCH_BOUNDS(64) product_nt_32(Product p) { multiply<Small, true, true>(p); }
KERNEL LAUNCH_BOUNDS(64) product_tn_32(Product p) { multiply<Small, false, false>(p); }
KERNEL LAUNCH_BOUNDS(64) product_tt_32(Product p) { multiply<Small, false, true>(p); }
KERNEL LAUNCH_BOUNDS(64) product_tn_16(Product p) { multiply<Slim, false, false>(p); }

KERNEL LAUNCH_BOUNDS(256, 1) product_nn_128_tf32(Product p) { multiply<Large, true, false, TF32>(p); }
KERNEL LAUNCH_BOUNDS(256, 1) product_nt_128_tf32(Product p) { multiply<Large, true, true, TF32>(p); }
KERNEL LAUNCH_BOUNDS(256, 1) product_tn_128_tf32(Product p) { multiply<Large, false, false, TF32>(p); }
KERNEL LAUNCH_BOUNDS(128, 3) product_nn_64_tf32(Product p) { multiply<Medium, true, false, TF32>(p); }
KERNEL LAUNCH_BOUNDS(128, 3) product_nt_64_tf32(Product p) { multiply<Medium, true, true, TF32>(p); }
KERNEL LAUNCH_BOUNDS(128, 3) product_tn_64_tf32(Product p) { multiply<Medium, false, false, TF32>(p); }
KERNEL LAUNCH_BOUNDS(256, 1) product_nn_128_bf16(Product p) { multiply<Large, true, false, BF16>(p); }
KERNEL LAUNCH_BOUNDS(256, 1) product_nt_128_bf16(Product p) { multiply<Large, true, true, BF16>(p); }
KERNEL LAUNCH_BOUNDS(256, 1) product_tn_128_bf16(Product p) { multiply<Large, false, false, BF16>(p); }
KERNEL LAUNCH_BOUNDS(128, 2) product_nn_64_bf16(Product p) { multiply<Medium, true, false, BF16>(p); }
KERNEL LAUNCH_BOUNDS(128, 2) product_nt_64_bf16(Product p) { multiply<Medium, true, true, BF16>(p); }
KERNEL LAUNCH_BOUNDS(128, 2) product_tn_64_bf16(Product p) { multiply<Medium, false, false, BF16>(p); }

// add_slices ends a product whose slices were computed separately, with the same
// roundings in the same order as one block would.
KERNEL add_slices(float *out, const float *partial, const float *bias, int size, int columns, int slices, int act, int add) {
	EACH(i, size) {
		float sum = add ? out[i] : 0;
		for (int s = 0; s < slices; s++)
			sum += partial[(long long)s * size + i];
		if (bias) sum += bias[(int)i % columns];
		out[i] = activate(act, sum);
	}
}
