// A product of two matrices by blocks of threads. The convolutions, which have no
// matrix in memory, use it too: what is multiplied is given element by element.
//
// A block owns a tile of results. It goes along k in steps of Tile::depth: while the
// threads multiply what is in shared memory, the next step's elements are on their
// way from memory in registers, and are put into the other half of shared memory; one
// barrier a step.
//
// Order. The sum over k is cut into slices; within a slice it is one chain of fmaf in
// the order of k, and the slices' sums are added in their order. The size of a tile
// and the place of an element in it have no part in this, so the bits of a result do
// not depend on how many rows there are, and a large and a small tile give the same.
// Slices may be given to blocks of their own (blockIdx.z), which fills the card where
// results are few and k is long; add_slices then adds their sums up.
//
// An Operand is a struct with
//
//   static constexpr Reading reading;  // who reads what
//   struct Row;                        // what a thread keeps of a row
//   Row row(int i) const;              // i may lie outside: a row of zeros
//   float4 four(const Row &, int k) const;  // elements k to k+3, zeros beyond the end
//
// where k is a multiple of four, and in place of four, if it is read one by one,
//
//   Column column(int k) const;        // what all rows have in common at k
//   float one(const Row &, const Column &) const;
//
// The left one has a row for every row of the result, the right one for every column.
// An Out takes results from threads:
//
//   template <int W> void put(int m, int n, const float (&v)[W], bool first, bool last) const;
//
// the W results from column n on, n a multiple of W, of a slice; first and last tell
// which slice it is. Results outside are offered too. Where bool again() const says so,
// every result is visited once more when all are put, by the thread that put it, with
// template <int W> void again(int m, int n) const: what takes many instructions is
// then in the kernel once, and not once for each result of a thread.
#pragma once
#include "device.h"

// Tile is rows × columns results of a block, of which a thread computes high × wide,
// depth steps of k at a time.
template <int rows_, int columns_, int high_, int wide_, int depth_> struct Tile {
	static constexpr int rows = rows_, columns = columns_, high = high_, wide = wide_, depth = depth_;
	static constexpr int across = columns / wide;  // threads beside each other
	static constexpr int threads = rows / high * across;
	static constexpr int left = 2 * depth * (rows + 4), right = 2 * depth * (columns + 4);  // floats of shared memory
};

// place tells where a tile lies by its number. They are numbered along columns of eight,
// so that blocks that run together share what they read.
template <class T> __device__ __forceinline__ void place(int tile, int rows, int columns, int &m, int &n) {
	int down = (rows + T::rows - 1) / T::rows, across = (columns + T::columns - 1) / T::columns;
	int band = tile / (8 * across), at = tile % (8 * across);
	int high = min(8, down - 8 * band);
	m = (8 * band + at % high) * T::rows;
	n = at / high * T::columns;
}

// 64 results of a thread for 16 numbers read make multiplying the limit, not shared
// memory; small tiles are for products that would leave most of the card idle.
using Large = Tile<128, 128, 8, 8, 8>;
using Medium = Tile<64, 64, 8, 4, 16>;
using Small = Tile<32, 32, 4, 4, 16>;
using Slim = Tile<64, 16, 4, 4, 16>;  // for few columns

// fresh is v, of which the compiler then knows nothing: what depends on it is computed
// where it is used and does not sit in a register through a loop.
__device__ __forceinline__ int fresh(int v) {
#ifndef EMULATED
	asm volatile("" : "+r"(v));
#endif
	return v;
}

// Neighbouring threads read neighbouring memory: along a row, in quads, or across rows.
// Along rows that cannot be read four at a time they read single elements.
enum class Reading { along, across, single };

// Panel is the part of an operand that a block works on: so many rows, and depth
// elements of each. Every thread brings in some quads, four elements of a row.
template <class Operand, int rows, int depth, int threads, int pack = 1, bool = Operand::reading == Reading::single> struct Panel {
	static constexpr bool single = false;
	static constexpr int quads = depth / 4;
	static constexpr int count = rows * quads / threads;
	static_assert(count * threads == rows * quads, "a thread brings in whole quads");

	typename Operand::Row row[count];
	float4 next[count];

	static constexpr bool across = Operand::reading == Reading::across;
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
			next[i] = o.four(row[i], k + 4 * quad_of(i));
	}

	// Elements of one k lie together, stride for each k.
	template <class S> __device__ __forceinline__ void spread(S &s, int at, int stride) const {
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

// The single elements of a thread lie at one k, or, where pack are put together, at pack
// neighbours. A warp reads eight neighbours of each of four rows: all of a sector of
// memory at once, where quads would take its parts in turns.
template <class Operand, int rows, int depth, int threads, int pack> struct Panel<Operand, rows, depth, threads, pack, true> {
	static constexpr bool single = true;
	static constexpr int words = depth / pack;
	static constexpr int apart = threads / words;  // rows from one to the next
	static constexpr int count = rows / apart;
	static_assert(threads % words == 0 && words % 8 == 0 && rows % apart == 0, "a thread brings in whole elements");

	int begin;  // the row of the first; the others' are worked out at every step, for want of registers
	float next[count][pack];

	__device__ __forceinline__ static int word_of() { return threadIdx.x % 8 + threadIdx.x / 32 % (words / 8) * 8; }
	__device__ __forceinline__ static int row_of(int i) { return threadIdx.x % 32 / 8 + threadIdx.x / 32 / (words / 8) * 4 + i * apart; }

	__device__ __forceinline__ void start(const Operand &, int first) { begin = first + row_of(0); }
	__device__ __forceinline__ void fetch(const Operand &o, int k) {
		const int here = fresh(begin);
#pragma unroll
		for (int p = 0; p < pack; p++) {
			auto column = o.column(k + word_of() * pack + p);
#pragma unroll
			for (int i = 0; i < count; i++)
				next[i][p] = o.one(o.row(here + i * apart), column);
		}
	}
	template <class S> __device__ __forceinline__ void spread(S &s, int at, int stride) const {
#pragma unroll
		for (int i = 0; i < count; i++)
			s[at + word_of() * stride + row_of(i)] = next[i][0];
	}
};

// Seat is where a thread's results lie in its block's tile: high/4 by wide/4 groups of
// four by four. A warp is at most eight threads wide: it reads few different numbers.
template <class T> struct Seat {
	static constexpr int high = T::high / 4, wide = T::wide / 4;
	int x, y;

	__device__ __forceinline__ Seat() {
		constexpr int lanes = T::across < 8 ? T::across : 8;
		constexpr int warps = T::across / lanes;
		const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
		x = 4 * (warp % warps * lanes + lane % lanes);
		y = 4 * (warp / warps * (32 / lanes) + lane / lanes);
	}
	// down is how far the thread's row r lies below its first, along how far group g.
	__device__ __forceinline__ static int down(int r) { return r / 4 * (T::rows / high) + r % 4; }
	__device__ __forceinline__ static int along(int g) { return g * (T::columns / wide); }
};

// slices computes the tile at (m0, n0): the sum over k from `from` to `to`, in slices
// that start at `from` and are a multiple of 16 long. Each is called with the thread's
// sums of a slice, and whether it is the first and the last. Left and right are shared
// memory.
//
// A step of a 128×128 tile is 1024 cycles of multiplying for a multiprocessor (128
// fmaf a cycle) and reads 8 KB; expected are 80% of 67 TFLOP/s for large products.
template <class T, class A, class B, class S, class R, class Each>
__device__ __forceinline__ void slices(S &left, R &right, const A &a, const B &b, int m0, int n0, int from, int to, int slice, Each each) {
	constexpr int depth = T::depth;
	constexpr int stride_a = T::rows + 4, stride_b = T::columns + 4;
	const Seat<T> seat;

	Panel<A, T::rows, depth, T::threads> pa;
	Panel<B, T::columns, depth, T::threads> pb;
	pa.start(a, m0);
	pb.start(b, n0);
	pa.fetch(a, from);
	pb.fetch(b, from);
	pa.spread(left, 0, stride_a);
	pb.spread(right, 0, stride_b);
	__syncthreads();

	to = from + (to - from + 15) / 16 * 16;  // a sum of nothing is added alike by every tile
	int stage = 0;
	for (int begin = from; begin < to; begin += slice) {
		const int end = min(begin + slice, to);
		float sum[T::high][T::wide] = {};
		for (int k = begin; k < end; k += depth) {
			const bool more = k + depth < to;
			if (more) {
				const int next = fresh(k + depth);
				pa.fetch(a, next);
				pb.fetch(b, next);
			}
#pragma unroll
			for (int i = 0; i < depth; i++) {
				float u[T::high], v[T::wide];
#pragma unroll
				for (int g = 0; g < seat.high; g++) {
					float4 w = load4(left, (stage * depth + i) * stride_a + seat.down(4 * g) + seat.y);
					u[4 * g] = w.x, u[4 * g + 1] = w.y, u[4 * g + 2] = w.z, u[4 * g + 3] = w.w;
				}
#pragma unroll
				for (int g = 0; g < seat.wide; g++) {
					float4 w = load4(right, (stage * depth + i) * stride_b + seat.along(g) + seat.x);
					v[4 * g] = w.x, v[4 * g + 1] = w.y, v[4 * g + 2] = w.z, v[4 * g + 3] = w.w;
				}
#pragma unroll
				for (int r = 0; r < T::high; r++)
#pragma unroll
					for (int c = 0; c < T::wide; c++)
						sum[r][c] = fmaf(u[r], v[c], sum[r][c]);
			}
			if (more) {
				stage ^= 1;
				pa.spread(left, stage * depth * stride_a, stride_a);
				pb.spread(right, stage * depth * stride_b, stride_b);
			}
			__syncthreads();
		}
		each(sum, begin == from, end == to);
	}
}

// product puts the tile at (m0, n0) where out says.
template <class T, class A, class B, class Out>
__device__ __forceinline__ void product(const A &a, const B &b, const Out &out, int m0, int n0, int from, int to, int slice) {
	SHARED(float, left, T::left);
	SHARED(float, right, T::right);
	const Seat<T> seat;
	slices<T>(left, right, a, b, m0, n0, from, to, slice, [&](const float (&sum)[T::high][T::wide], bool first, bool last) {
		const int m = fresh(m0 + seat.y), n = fresh(n0 + seat.x);
#pragma unroll
		for (int r = 0; r < T::high; r++)
#pragma unroll
			for (int g = 0; g < seat.wide; g++) {
				float v[4] = {sum[r][4 * g], sum[r][4 * g + 1], sum[r][4 * g + 2], sum[r][4 * g + 3]};
				out.put(m + seat.down(r), n + seat.along(g), v, first, last);
			}
	});
	if (out.again())
#pragma unroll 1
		for (int r = 0; r < T::high; r++)
#pragma unroll 1
			for (int g = 0; g < seat.wide; g++)
				out.template again<4>(m0 + seat.down(r) + seat.y, n0 + seat.along(g) + seat.x);
}
