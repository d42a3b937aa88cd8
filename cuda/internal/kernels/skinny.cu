// A product with few columns, such as the logits of a classifier: out = act(A·B + bias)
// for B with at most 32 columns.
//
// Reads A, B and an optional bias; writes the result. Shape: tiles would leave most of
// the GPU idle and most of each tile empty, so a warp computes one row or several. Its
// lanes stride through k, and every lane has sums for all columns; at the end the lanes'
// sums are added. B goes through shared memory in chunks.
//
// A record's bits do not depend on the number of rows: lane i adds the elements k = i,
// i+32, … in their order, and lanes are added in a tree.
//
// It reads A once, and B once for a block of up to 16 rows, from the L2 cache: 2048×784
// times 784×10 reads 6.4 MB, 2 µs at 3.35 TB/s, and 4 MB more from the cache. At 256
// rows it is bound by the launch.
#include "activation.h"
#include "half.h"

// sum_lanes adds up one sum per column over the lanes of a warp, for `max_columns`
// columns, a power of two: lane i gets column i / (32/max_columns). A lane sends half of
// its columns in every step, so this takes 31 shuffles and not 160.
template <int max_columns> __device__ __forceinline__ float sum_lanes(float (&v)[max_columns]) {
	const int lane = threadIdx.x % 32;
#pragma unroll
	for (int step = 16, count = max_columns / 2; step > 0; step /= 2, count /= 2) {
		if (count == 0) {
			v[0] += __shfl_xor_sync(0xffffffff, v[0], step);
			continue;
		}
#pragma unroll
		for (int i = 0; i < max_columns / 2; i++)
			if (i < count) {
				float sent = lane & step ? v[i] : v[i + count], kept = lane & step ? v[i + count] : v[i];
				v[i] = kept + __shfl_xor_sync(0xffffffff, sent, step);
			}
	}
	return v[0];
}

struct SkinnyProduct {
	const float *a, *b, *bias;
	float *out;
	int rows, columns, depth, transposed, act;
	int format;  // of B
};

// A warp computes `rows_per_warp` rows.
template <int max_columns, int rows_per_warp> __device__ __forceinline__ void multiply(const SkinnyProduct &p) {
	constexpr int chunk = 128, stride = max_columns == 4 ? 4 : max_columns + 4;
	SHARED(float, panel, chunk * stride);
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const int first = (blockIdx.x * 4 + warp) * rows_per_warp;

	float sum[rows_per_warp][max_columns] = {};
	for (int from = 0; from < p.depth; from += chunk) {
		for (int i = threadIdx.x; i < chunk * max_columns; i += 128) {
			int k = p.transposed ? i % chunk : i / max_columns, n = p.transposed ? i / chunk : i % max_columns;
			float v = 0;
			if (n < p.columns && from + k < p.depth)
				v = weight(p.b, p.transposed ? n * p.depth + from + k : (from + k) * p.columns + n, p.format);
			panel[k * stride + n] = v;
		}
		__syncthreads();
#pragma unroll
		for (int i = 0; i < chunk; i += 32) {
			const int k = from + i + lane;
			float u[rows_per_warp];
#pragma unroll
			for (int r = 0; r < rows_per_warp; r++)
				u[r] = first + r < p.rows && k < p.depth ? p.a[(first + r) * p.depth + k] : 0;
#pragma unroll
			for (int n = 0; n < max_columns; n += 4) {
				float4 v = load4(panel, (i + lane) * stride + n);
#pragma unroll
				for (int r = 0; r < rows_per_warp; r++) {
					sum[r][n] = fmaf(u[r], v.x, sum[r][n]);
					sum[r][n + 1] = fmaf(u[r], v.y, sum[r][n + 1]);
					sum[r][n + 2] = fmaf(u[r], v.z, sum[r][n + 2]);
					sum[r][n + 3] = fmaf(u[r], v.w, sum[r][n + 3]);
				}
			}
		}
		__syncthreads();
	}
	const int column = lane / (32 / max_columns);
#pragma unroll
	for (int r = 0; r < rows_per_warp; r++) {
		float v = sum_lanes(sum[r]);
		if (lane % (32 / max_columns) || column >= p.columns || first + r >= p.rows) continue;
		if (p.bias) v += p.bias[column];
		p.out[(first + r) * p.columns + column] = activate(p.act, v);
	}
}

// The numbers of a name: the largest number of columns, the rows of a warp.
KERNEL LAUNCH_BOUNDS(128) skinny_4_1(SkinnyProduct p) { multiply<4, 1>(p); }
KERNEL LAUNCH_BOUNDS(128) skinny_4_4(SkinnyProduct p) { multiply<4, 4>(p); }
KERNEL LAUNCH_BOUNDS(128) skinny_16_1(SkinnyProduct p) { multiply<16, 1>(p); }
KERNEL LAUNCH_BOUNDS(128) skinny_16_4(SkinnyProduct p) { multiply<16, 4>(p); }
KERNEL LAUNCH_BOUNDS(128) skinny_32_1(SkinnyProduct p) { multiply<32, 1>(p); }
KERNEL LAUNCH_BOUNDS(128) skinny_32_2(SkinnyProduct p) { multiply<32, 2>(p); }
