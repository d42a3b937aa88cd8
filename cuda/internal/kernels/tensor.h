// A product by tiles, as in tile.h, on tensor cores. Operands are rounded to TF32 or to
// bfloat16 when they are stored to shared memory, or split in two TF32 numbers when they
// are read from it (split.h); sums are float32. Within a step of k
// the hardware adds in its own order, which is the same for every element of a tile and
// for every tile size; slices are as in tile.h.
//
// A row of a panel is 16 words in shared memory; a word is one TF32 number or two
// bfloat16 numbers. An instruction may use any four words as its k, if both operands use
// the same; therefore a thread loads four neighbours, for two instructions, in one
// access. The groups of four words of a row are permuted so that neither stores nor
// loads have bank conflicts.
//
// Operands are read from memory in float32, 16 KB for 128·128·16 products, and the L2
// cache gives a multiprocessor about 25 bytes a cycle: at most 185 TFLOP/s on an H100
// for either type, 37% of the peak of TF32 and 19% of that of bfloat16. Predicted: 150
// TFLOP/s for large products.
#pragma once
#include "split.h"
#include "tile.h"

// A warp computes 32 columns. Split operands take too many registers for tiles of 128×128.
using TensorTile64x128 = Tile<64, 128, 8, 4, 16>;

#if defined(EMULATED) || __CUDA_ARCH__ >= 800

// store_quad stores a quad, the four elements 4q to 4q+3 of a row, to shared memory.
template <class S> __device__ __forceinline__ void store_quad(TF32, S &s, int row, int q, float4 v) {
	store4(s, 16 * row + 4 * (q ^ (row / 2 % 4)), make_float4(to_tf32(v.x), to_tf32(v.y), to_tf32(v.z), to_tf32(v.w)));
}
template <class S> __device__ __forceinline__ void store_quad(SplitTF32, S &s, int row, int q, float4 v) {
	store4(s, 16 * row + 4 * (q ^ (row / 2 % 4)), v);
}
template <class S> __device__ __forceinline__ void store_quad(BF16, S &s, int row, int q, float4 v) {
	store2(s, 16 * row + 4 * (q / 2 ^ (row / 2 % 4)) + q % 2 * 2, make_float2(pack_bf16(v.x, v.y), pack_bf16(v.z, v.w)));
}

// pack_word is the representation of one element, or of two, in shared memory.
__device__ __forceinline__ float pack_word(TF32, const float (&v)[1]) { return to_tf32(v[0]); }
__device__ __forceinline__ float pack_word(SplitTF32, const float (&v)[1]) { return v[0]; }
__device__ __forceinline__ float pack_word(BF16, const float (&v)[2]) { return pack_bf16(v[0], v[1]); }

template <class Math, class P, class S> __device__ __forceinline__ void store_panel(const P &p, S &s, int first) {
#pragma unroll
	for (int i = 0; i < P::count; i++) {
		const int row = first + P::row_of(i);
		if constexpr (P::single) {
			const int w = P::word_of();
			s[16 * row + 4 * (w / 4 ^ (row / 2 % 4)) + w % 4] = pack_word(Math{}, p.next[i]);
		} else {
			store_quad(Math{}, s, row, P::quad_of(i), p.next[i]);
		}
	}
}

template <class Math, class T, class A, class B, class Out>
__device__ __forceinline__ void tensor_product(const A &a, const B &b, const Out &out, int m0, int n0, int from, int to, int slice) {
	using Sum = TensorSum<Math>;
	constexpr int depth = Math::depth;
	constexpr int warps = T::columns / 32;                               // side by side
	constexpr int row_tiles = T::rows / (T::threads / 32 / warps) / 16;  // instructions for a warp's rows
	constexpr int column_tiles = 4;                                      // and for its columns
	SHARED(float, left, 2 * 16 * T::rows);
	SHARED(float, right, 2 * 16 * T::columns);

	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const int y = warp / warps * row_tiles * 16 + lane / 4, x = warp % warps * column_tiles * 8 + lane / 4;
	const int quad_offset = 4 * (lane % 4 ^ (lane / 8 % 4));

	Panel<A, T::rows, depth, T::threads, Math::pack> pa;
	Panel<B, T::columns, depth, T::threads, Math::pack> pb;
	pa.start(a, m0);
	pb.start(b, n0);
	pa.fetch(a, from);
	pb.fetch(b, from);
	store_panel<Math>(pa, left, 0);
	store_panel<Math>(pb, right, 0);
	__syncthreads();

	const int row = m0 + y, column = n0 + x - lane / 4 + lane % 4 * 2;
	int stage = 0;
	for (int begin = from; begin < to; begin += slice) {
		const int end = min(begin + slice, to);
		Sum sum[row_tiles][column_tiles] = {};
		for (int k = begin; k < end; k += depth) {
			const bool more = k + depth < to;
			if (more) {
				pa.fetch(a, k + depth);
				pb.fetch(b, k + depth);
			}
			typename Sum::B v[column_tiles][2];
#pragma unroll
			for (int j = 0; j < column_tiles; j++) {
				const float4 w = load4(right, 16 * (stage * T::columns + x + 8 * j) + quad_offset);
				v[j][0] = Sum::right({w.x, w.y});
				v[j][1] = Sum::right({w.z, w.w});
			}
#pragma unroll
			for (int i = 0; i < row_tiles; i++) {
				const float4 top = load4(left, 16 * (stage * T::rows + y + 16 * i) + quad_offset);
				const float4 bottom = load4(left, 16 * (stage * T::rows + y + 16 * i + 8) + quad_offset);
				const typename Sum::A u[2] = {Sum::left({top.x, bottom.x, top.y, bottom.y}), Sum::left({top.z, bottom.z, top.w, bottom.w})};
#pragma unroll
				for (int j = 0; j < column_tiles; j++) {
					sum[i][j].add(u[0], v[j][0]);
					sum[i][j].add(u[1], v[j][1]);
				}
			}
			if (more) {
				stage ^= 1;
				store_panel<Math>(pa, left, stage * T::rows);
				store_panel<Math>(pb, right, stage * T::columns);
			}
			__syncthreads();
		}
#pragma unroll
		for (int i = 0; i < row_tiles; i++)
#pragma unroll
			for (int j = 0; j < column_tiles; j++) {
				float upper[2] = {sum[i][j].of(0), sum[i][j].of(1)}, lower[2] = {sum[i][j].of(2), sum[i][j].of(3)};
				out.store(row + 16 * i, column + 8 * j, upper, begin == from, end == to);
				out.store(row + 16 * i + 8, column + 8 * j, lower, begin == from, end == to);
			}
	}
	if (out.needs_finish())
#pragma unroll 1
		for (int i = 0; i < 2 * row_tiles; i++)
#pragma unroll 1
			for (int j = 0; j < column_tiles; j++)
				out.template finish<2>(row + 8 * i, column + 8 * j);
}

#endif

// product_as is product, or tensor_product if the device has such tensor cores; a slice
// is a multiple of 32 long.
template <class T, class A, class B, class Out>
__device__ __forceinline__ void product_as(FP32, const A &a, const B &b, const Out &out, int m0, int n0, int from, int to, int slice) {
	product<T>(a, b, out, m0, n0, from, to, slice);
}
template <class T, class Math, class A, class B, class Out>
__device__ __forceinline__ void product_as(Math, const A &a, const B &b, const Out &out, int m0, int n0, int from, int to, int slice) {
#if defined(EMULATED) || __CUDA_ARCH__ >= 800
	tensor_product<Math, T>(a, b, out, m0, n0, from, to, slice);
#else
	product<T>(a, b, out, m0, n0, from, to, slice);
#endif
}
template <class T, class A, class B, class Out>
__device__ __forceinline__ void product_as(SplitTF32, const A &a, const B &b, const Out &out, int m0, int n0, int from, int to, int slice) {
#ifdef SPLITS_OPERANDS
	tensor_product<SplitTF32, T>(a, b, out, m0, n0, from, to, slice);
#else
	__trap();
#endif
}
