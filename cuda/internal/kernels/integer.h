// Products of matrices of 16-bit integers on tensor cores. The sums are exact modulo 2^32, so they
// have the same bits in every order and for every size of tile.
//
// Tensor cores multiply bytes. An element is 256·high + low with a signed high and an unsigned low
// byte. Four instructions multiply the bytes of two elements; three sums, which wrap, collect the
// products that have the same weight:
//
//	Σ a·b = 2^16·Σ high·high + 2^8·Σ (high·low + low·high) + Σ low·low   modulo 2^32
//
// Every target has these instructions: m8n8k16 since sm_75, m16n8k32 since sm_80 ("PTX ISA 8.8",
// section 9.7.14.5, mma; without .satfinite sums of 32 bits wrap). The emulated device computes
// with the first, its PTX with the second.
//
// Shape. A block of 256 threads computes 64 by 64 sums, 32 elements of k at a time. While the warps
// multiply, half of the threads load the next elements of the left operand and the others those of
// the right one; they store them to the other half of shared memory, split in bytes. A row of an
// operand is 16 words there. A word has a byte of four elements; a quad has the low and the high
// word of four elements, then those of the next four, so that a thread gets its operands for four
// instructions in one access. Rows and quads are permuted so that neither loads nor stores have
// bank conflicts. Predicted for an H100, whose tensor cores multiply 4096 bytes a cycle and
// multiprocessor: a step is 131072 products in 128 cycles, 192 cycles for the loads from shared
// memory; ordinary lanes need 2048 cycles (64 products of 32 bits a cycle).
#pragma once
#include "device.h"

constexpr int integer_side = 64, integer_depth = 32, integer_threads = 256;
constexpr int integer_results = integer_side * integer_side / integer_threads;  // of a thread
constexpr int integer_words = 2 * 2 * 16 * integer_side;  // of shared memory: two stages of two operands

// Bytes are the low and the high bytes of four elements.
struct Bytes {
	unsigned low, high;
};

// IntegerSums are a thread's parts of 16 by 8 sums: rows lane/4 and lane/4+8, columns 2·(lane%4)
// and 2·(lane%4)+1, row by row.
struct IntegerSums {
	unsigned high[4], middle[4], low[4];

	__device__ __forceinline__ unsigned of(int i) const { return (high[i] << 16) + (middle[i] << 8) + low[i]; }
};

#if !defined(EMULATED) && __CUDA_ARCH__ >= 800

// Volatile: all lanes take part, so the compiler must not move it into divergent code.
#define MULTIPLY_BYTES(types, sum, part_a, part_b)                                                                       \
	asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." types ".s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
		: "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])                                                         \
		: "r"(a[0].part_a), "r"(a[1].part_a), "r"(a[2].part_a), "r"(a[3].part_a), "r"(b[0].part_b), "r"(b[1].part_b))

#else

#ifdef EMULATED
#define MULTIPLY_8(types, sum, first, left, right) emu::multiply_bytes(types, sum[first], sum[first + 1], left, right)
#else
#define MULTIPLY_8(types, sum, first, left, right)                                                                \
	asm volatile("mma.sync.aligned.m8n8k16.row.col.s32." types ".s32 {%0,%1}, {%2}, {%3}, {%0,%1};"              \
		: "+r"(sum[first]), "+r"(sum[first + 1])                                                                 \
		: "r"(left), "r"(right))
#endif

#define MULTIPLY_BYTES(types, sum, part_a, part_b)             \
	MULTIPLY_8(types, sum, 0, a[0].part_a, b[0].part_b);       \
	MULTIPLY_8(types, sum, 2, a[1].part_a, b[0].part_b);       \
	MULTIPLY_8(types, sum, 0, a[2].part_a, b[1].part_b);       \
	MULTIPLY_8(types, sum, 2, a[3].part_a, b[1].part_b)

#endif

// add_integer_products adds products of 16 rows and 8 columns, 32 elements deep. A thread passes
// two groups of four elements of k: a are the first of rows lane/4 and lane/4+8, then the second of
// both; b are those of column lane/4. The groups of lanes 0 to 3 are different elements of k, the
// same in a and b.
__device__ __forceinline__ void add_integer_products(IntegerSums &sum, const Bytes (&a)[4], const Bytes (&b)[2]) {
	MULTIPLY_BYTES("s8.s8", sum.high, high, high);
	MULTIPLY_BYTES("s8.u8", sum.middle, high, low);
	MULTIPLY_BYTES("u8.s8", sum.middle, low, high);
	MULTIPLY_BYTES("u8.u8", sum.low, low, low);
}

// IntegerMatrix is a matrix whose rows start at multiples of 8 bytes.
struct IntegerMatrix {
	const int16_t *data;
	int rows, stride;  // stride is a multiple of 4

	// quad returns four neighbours in a row, zeros outside.
	__device__ __forceinline__ uint2 quad(int row, int column) const {
		if (row >= rows || column >= stride) return make_uint2(0, 0);
		return *reinterpret_cast<const uint2 *>(data + (long long)row * stride + column);
	}
};

// IntegerPanel is what a thread loads of an operand for a step: 16 elements. With along, k runs
// along the rows of the matrix; otherwise it runs across them.
template <bool along> struct IntegerPanel {
	IntegerMatrix matrix;
	int first;  // row of the operand
	uint2 next[4];

	static constexpr int threads = integer_threads / 2;
	__device__ __forceinline__ static int item() { return threadIdx.x % threads; }

	// Across the rows of the matrix, neighbouring threads have different groups of k.
	__device__ __forceinline__ static int group() { return along ? item() % 8 : item() % 2 + item() / 32 * 2; }
	__device__ __forceinline__ static int row(int i) { return along ? item() / 8 + 16 * i : item() / 2 % 16 * 4 + i; }

	__device__ __forceinline__ void fetch(int k) {
#pragma unroll
		for (int i = 0; i < 4; i++)
			next[i] = along ? matrix.quad(first + row(i), k + 4 * group()) : matrix.quad(k + 4 * group() + i, first + row(0));
	}

	template <class S> __device__ __forceinline__ void store(S &panels, int operand) const {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			uint2 v = next[i];
			if constexpr (!along) {  // a column of four quads
				const unsigned half = i % 2 ? 0x7632 : 0x5410;
				v.x = i < 2 ? __byte_perm(next[0].x, next[1].x, half) : __byte_perm(next[0].y, next[1].y, half);
				v.y = i < 2 ? __byte_perm(next[2].x, next[3].x, half) : __byte_perm(next[2].y, next[3].y, half);
			}
			const unsigned low = __byte_perm(v.x, v.y, 0x6420), high = __byte_perm(v.x, v.y, 0x7531);
			store2(panels, quad_at(operand, row(i), group() / 2) + group() % 2 * 2, make_float2(__uint_as_float(low), __uint_as_float(high)));
		}
	}

	// quad_at is the place in shared memory of quad q of a row.
	__device__ __forceinline__ static int quad_at(int operand, int row, int q) {
		return 16 * (integer_side * operand + (row ^ (row / 4 & 1))) + 4 * (q ^ (row / 8 % 4));
	}
};

// integer_product computes the tile at (m0, n0): the sums over k from `from` to `to`, which is where
// the matrices end. Along rows `from` is 0. use is called with a number
// below integer_results, a row and a column of the result, and their sum modulo 2^32, also outside of
// the matrices, where the sum is 0. All threads of the block call it. It ends with a
// barrier: panels, shared memory, is free again.
template <bool along, class S, class Use>
__device__ __forceinline__ void integer_product(S &panels, const IntegerMatrix &a, const IntegerMatrix &b, int m0, int n0, int from, int to, Use use) {
	using Panel = IntegerPanel<along>;
	constexpr int row_tiles = 2, column_tiles = 2;  // instructions for the rows and columns of a warp
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const int y = warp / 4 * 32 + lane / 4, x = warp % 4 * 16 + lane / 4;
	const int operand = threadIdx.x / Panel::threads;
	Panel panel{operand ? b : a, operand ? n0 : m0, {}};

	IntegerSums sums[row_tiles][column_tiles] = {};
	panel.fetch(from);
	panel.store(panels, operand);
	__syncthreads();
	int stage = 0;
	for (int k = from; k < to; k += integer_depth) {
		const bool more = k + integer_depth < to;
		if (more) panel.fetch(k + integer_depth);
		Bytes right[column_tiles][2];
#pragma unroll
		for (int j = 0; j < column_tiles; j++) {
			const float4 v = load4(panels, Panel::quad_at(2 * stage + 1, x + 8 * j, lane % 4));
			right[j][0] = {__float_as_uint(v.x), __float_as_uint(v.y)};
			right[j][1] = {__float_as_uint(v.z), __float_as_uint(v.w)};
		}
#pragma unroll
		for (int i = 0; i < row_tiles; i++) {
			const float4 top = load4(panels, Panel::quad_at(2 * stage, y + 16 * i, lane % 4));
			const float4 bottom = load4(panels, Panel::quad_at(2 * stage, y + 16 * i + 8, lane % 4));
			const Bytes left[4] = {
				{__float_as_uint(top.x), __float_as_uint(top.y)},
				{__float_as_uint(bottom.x), __float_as_uint(bottom.y)},
				{__float_as_uint(top.z), __float_as_uint(top.w)},
				{__float_as_uint(bottom.z), __float_as_uint(bottom.w)},
			};
#pragma unroll
			for (int j = 0; j < column_tiles; j++)
				add_integer_products(sums[i][j], left, right[j]);
		}
		if (more) {
			stage ^= 1;
			panel.store(panels, 2 * stage + operand);
		}
		__syncthreads();
	}
#pragma unroll
	for (int i = 0; i < row_tiles; i++)
#pragma unroll
		for (int j = 0; j < column_tiles; j++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				use((i * column_tiles + j) * 4 + e, m0 + y + 16 * i + e / 2 * 8, n0 + x - lane / 4 + 8 * j + lane % 4 * 2 + e % 2, sums[i][j].of(e));
}
