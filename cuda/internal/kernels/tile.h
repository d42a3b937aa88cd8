// A product of two matrices by blocks of threads, for products of matrices and for
// convolutions, whose matrices are not in memory: an operand is read through a struct.
//
// A block computes a tile of results. It goes along k in steps of Tile::depth: while the
// threads multiply the data in shared memory, the next step's elements are loaded into
// registers, and are then stored to the other half of shared memory; one barrier per
// step.
//
// Order. The sum over k is split into slices. Within a slice it is one chain of fmaf in
// the order of k, and the slices' sums are added in their order. The size of a tile and
// the position of an element in it do not affect this, so the bits of a result do not
// depend on the number of rows, and a large and a small tile give the same bits. Slices
// may be computed by separate blocks (blockIdx.z), which fills the GPU where results are
// few and k is long; add_slices then adds their sums.
//
// An Operand is a struct with
//
//   static constexpr Access access;    // which thread reads what
//   struct Row;                        // a thread's state for a row
//   Row row(int i) const;              // i may be outside: a row of zeros
//   float4 quad(const Row &, int k) const;  // elements k to k+3, zeros beyond the end
//
// where k is a multiple of four. An operand of single elements has, instead of quad,
//
//   Column column(int k) const;        // the state that all rows share at k
//   float element(const Row &, const Column &) const;
//
// The left operand has a row for every row of the result, the right one for every
// column. An Out takes results from threads:
//
//   template <int W> void store(int m, int n, const float (&v)[W], bool first, bool last) const;
//
// the W results of a slice from column n on, n a multiple of W; first and last identify
// the slice. store is also called for results outside. If bool needs_finish() const
// returns true, every result is visited once more after all calls of store, by the
// thread that stored it, through template <int W> void finish(int m, int n) const: code
// with many instructions is then in the kernel once, and not once for each result of a
// thread.
#pragma once
#include "device.h"

// Tile is rows × columns results of a block, of which a thread computes thread_rows ×
// thread_columns. A block processes depth elements of k at a time.
template <int rows_, int columns_, int thread_rows_, int thread_columns_, int depth_> struct Tile {
	static constexpr int rows = rows_, columns = columns_, thread_rows = thread_rows_, thread_columns = thread_columns_, depth = depth_;
	static constexpr int threads_across = columns / thread_columns;  // threads next to each other
	static constexpr int threads = rows / thread_rows * threads_across;
	static constexpr int left_floats = 2 * depth * (rows + 4), right_floats = 2 * depth * (columns + 4);  // floats of shared memory
};

// tile_position returns the position of a tile from its number. Tiles are numbered along
// columns of eight, so that blocks that run together share what they read.
template <class T> __device__ __forceinline__ void tile_position(int tile, int rows, int columns, int &m, int &n) {
	int down = (rows + T::rows - 1) / T::rows, across = (columns + T::columns - 1) / T::columns;
	int band = tile / (8 * across), index = tile % (8 * across);
	int high = min(8, down - 8 * band);
	m = (8 * band + index % high) * T::rows;
	n = index / high * T::columns;
}

// 64 results per thread for 16 numbers read make multiplications the limit, not shared
// memory. Small tiles are for products that would leave most of the GPU idle.
using Tile128x128 = Tile<128, 128, 8, 8, 8>;
using Tile64x64 = Tile<64, 64, 8, 4, 16>;
using Tile32x32 = Tile<32, 32, 4, 4, 16>;
using Tile64x16 = Tile<64, 16, 4, 4, 16>;  // for few columns

// opaque returns v and hides its value from the compiler: values that depend on it are
// computed where they are used and do not occupy a register through a loop.
__device__ __forceinline__ int opaque(int v) {
#ifndef EMULATED
	asm volatile("" : "+r"(v));
#endif
	return v;
}

// Access is how neighbouring threads read neighbouring memory: along a row in quads,
// across rows, or, for rows that cannot be read four at a time, by single elements.
enum class Access { along_rows, across_rows, single_elements };

// Panel is the part of an operand that a block processes: rows with depth elements each.
// Every thread loads some quads, four elements of a row.
template <class Operand, int rows, int depth, int threads, int pack = 1, bool = Operand::access == Access::single_elements> struct Panel {
	static constexpr bool single = false;
	static constexpr int quads = depth / 4;
	static constexpr int count = rows * quads / threads;
	static_assert(count * threads == rows * quads, "a thread loads whole quads");

	typename Operand::Row row[count];
	float4 next[count];

	static constexpr bool across = Operand::access == Access::across_rows;
	__device__ __forceinline__ static int row_of(int i) {
		int q = threadIdx.x + i * threads;
		return across ? q % rows : q / quads;
	}
	__device__ __forceinline__ static int quad_of(int i) {
		int q = threadIdx.x + i * threads;
		return across ? q / rows : q % quads;
	}

	__device__ __forceinline__ void start(const Operand &o, int first) {
#pragma unroll
		for (int i = 0; i < count; i++)
			row[i] = o.row(first + row_of(i));
	}

	__device__ __forceinline__ void fetch(const Operand &o, int k) {
#pragma unroll
		for (int i = 0; i < count; i++)
			next[i] = o.quad(row[i], k + 4 * quad_of(i));
	}

	// The elements of one k are contiguous, stride for each k.
	template <class S> __device__ __forceinline__ void store(S &s, int at, int stride) const {
#pragma unroll
		for (int i = 0; i < count; i++) {
			int to = at + 4 * quad_of(i) * stride + row_of(i);
			s[to] = next[i].x;
			s[to + stride] = next[i].y;
			s[to + 2 * stride] = next[i].z;
			s[to + 3 * stride] = next[i].w;
		}
	}
};

// The single elements of a thread have one k, or pack neighbouring k if pack are stored
// together. A warp reads eight neighbours of each of four rows: whole sectors of memory
// at once; quads would read each sector in several parts.
template <class Operand, int rows, int depth, int threads, int pack> struct Panel<Operand, rows, depth, threads, pack, true> {
	static constexpr bool single = true;
	static constexpr int words = depth / pack;
	static constexpr int row_step = threads / words;  // rows between a thread's elements
	static constexpr int count = rows / row_step;
	static_assert(threads % words == 0 && words % 8 == 0 && rows % row_step == 0, "a thread loads whole elements");

	int begin;  // the row of the first element; the other rows are computed in every step, to save registers
	float next[count][pack];

	__device__ __forceinline__ static int word_of() { return threadIdx.x % 8 + threadIdx.x / 32 % (words / 8) * 8; }
	__device__ __forceinline__ static int row_of(int i) { return threadIdx.x % 32 / 8 + threadIdx.x / 32 / (words / 8) * 4 + i * row_step; }

	__device__ __forceinline__ void start(const Operand &, int first) { begin = first + row_of(0); }
	__device__ __forceinline__ void fetch(const Operand &o, int k) {
		const int here = opaque(begin);
#pragma unroll
		for (int p = 0; p < pack; p++) {
			auto column = o.column(k + word_of() * pack + p);
#pragma unroll
			for (int i = 0; i < count; i++)
				next[i][p] = o.element(o.row(here + i * row_step), column);
		}
	}
	template <class S> __device__ __forceinline__ void store(S &s, int at, int stride) const {
#pragma unroll
		for (int i = 0; i < count; i++)
			s[at + word_of() * stride + row_of(i)] = next[i][0];
	}
};

// ThreadPosition is the position of a thread's results in its block's tile: row_groups
// by column_groups groups of four by four results. A warp is at most eight threads wide,
// so it reads few different numbers.
template <class T> struct ThreadPosition {
	static constexpr int row_groups = T::thread_rows / 4, column_groups = T::thread_columns / 4;
	int row, column;

	__device__ __forceinline__ ThreadPosition() {
		constexpr int lanes = T::threads_across < 8 ? T::threads_across : 8;
		constexpr int warps = T::threads_across / lanes;
		const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
		column = 4 * (warp % warps * lanes + lane % lanes);
		row = 4 * (warp / warps * (32 / lanes) + lane / lanes);
	}
	// row_offset is the offset of the thread's row r from its first row; column_offset is
	// that of column group g from its first column.
	__device__ __forceinline__ static int row_offset(int r) { return r / 4 * (T::rows / row_groups) + r % 4; }
	__device__ __forceinline__ static int column_offset(int g) { return g * (T::columns / column_groups); }
};

// multiply_slices computes the tile at (m0, n0): the sum over k from `from` to `to`, in
// slices that start at `from` and have a multiple of 16 terms. use is called with the
// thread's sums of each slice, and whether the slice is the first and the last. left and
// right are shared memory.
//
// A step of a 128×128 tile is 1024 cycles of multiplications for a multiprocessor (128
// fmaf a cycle) and reads 8 KB. Predicted: 80% of 67 TFLOP/s for large products.
template <class T, class A, class B, class S, class R, class Use>
__device__ __forceinline__ void multiply_slices(S &left, R &right, const A &a, const B &b, int m0, int n0, int from, int to, int slice, Use use) {
	constexpr int depth = T::depth;
	constexpr int stride_a = T::rows + 4, stride_b = T::columns + 4;
	const ThreadPosition<T> thread;

	Panel<A, T::rows, depth, T::threads> pa;
	Panel<B, T::columns, depth, T::threads> pb;
	pa.start(a, m0);
	pb.start(b, n0);
	pa.fetch(a, from);
	pb.fetch(b, from);
	pa.store(left, 0, stride_a);
	pb.store(right, 0, stride_b);
	__syncthreads();

	to = from + (to - from + 15) / 16 * 16;  // every tile adds zeros for the missing terms
	int stage = 0;
	for (int begin = from; begin < to; begin += slice) {
		const int end = min(begin + slice, to);
		float sum[T::thread_rows][T::thread_columns] = {};
		for (int k = begin; k < end; k += depth) {
			const bool more = k + depth < to;
			if (more) {
				const int next = opaque(k + depth);
				pa.fetch(a, next);
				pb.fetch(b, next);
			}
#pragma unroll
			for (int i = 0; i < depth; i++) {
				float u[T::thread_rows], v[T::thread_columns];
#pragma unroll
				for (int g = 0; g < thread.row_groups; g++) {
					float4 w = load4(left, (stage * depth + i) * stride_a + thread.row_offset(4 * g) + thread.row);
					u[4 * g] = w.x, u[4 * g + 1] = w.y, u[4 * g + 2] = w.z, u[4 * g + 3] = w.w;
				}
#pragma unroll
				for (int g = 0; g < thread.column_groups; g++) {
					float4 w = load4(right, (stage * depth + i) * stride_b + thread.column_offset(g) + thread.column);
					v[4 * g] = w.x, v[4 * g + 1] = w.y, v[4 * g + 2] = w.z, v[4 * g + 3] = w.w;
				}
#pragma unroll
				for (int r = 0; r < T::thread_rows; r++)
#pragma unroll
					for (int c = 0; c < T::thread_columns; c++)
						sum[r][c] = fmaf(u[r], v[c], sum[r][c]);
			}
			if (more) {
				stage ^= 1;
				pa.store(left, stage * depth * stride_a, stride_a);
				pb.store(right, stage * depth * stride_b, stride_b);
			}
			__syncthreads();
		}
		use(sum, begin == from, end == to);
	}
}

// product writes the tile at (m0, n0) to out.
template <class T, class A, class B, class Out>
__device__ __forceinline__ void product(const A &a, const B &b, const Out &out, int m0, int n0, int from, int to, int slice) {
	SHARED(float, left, T::left_floats);
	SHARED(float, right, T::right_floats);
	const ThreadPosition<T> thread;
	multiply_slices<T>(left, right, a, b, m0, n0, from, to, slice, [&](const float (&sum)[T::thread_rows][T::thread_columns], bool first, bool last) {
		const int m = opaque(m0 + thread.row), n = opaque(n0 + thread.column);
#pragma unroll
		for (int r = 0; r < T::thread_rows; r++)
#pragma unroll
			for (int g = 0; g < thread.column_groups; g++) {
				float v[4] = {sum[r][4 * g], sum[r][4 * g + 1], sum[r][4 * g + 2], sum[r][4 * g + 3]};
				out.store(m + thread.row_offset(r), n + thread.column_offset(g), v, first, last);
			}
	});
	if (out.needs_finish())
#pragma unroll 1
		for (int r = 0; r < T::thread_rows; r++)
#pragma unroll 1
			for (int g = 0; g < thread.column_groups; g++)
				out.template finish<4>(m0 + thread.row_offset(r) + thread.row, n0 + thread.column_offset(g) + thread.column);
}
