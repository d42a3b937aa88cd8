// Operands of matrix instructions in the wrong lanes. The positions of elements are written as in
// "PTX ISA 8.8", section 9.7.14.5: groupID is lane/4 and threadID_in_group is lane%4.
#include "device.h"

__device__ int byte_of(int i, int k, bool is_signed) {
	int v = (i * 37 + k * 101 + i * k * 13 + 5) & 255;
	return is_signed && v > 127 ? v - 256 : v;
}

// pack is the word with four elements of a matrix; at returns the row and the column of each.
template <class At> __device__ unsigned pack(At at) {
	unsigned word = 0;
	for (int i = 0; i < 4; i++) {
		int row, column;
		at(i, row, column);
		word |= unsigned(byte_of(row, column, false)) << 8 * i;
	}
	return word;
}

// inner is an element of the product. B is byte_of with rows and columns exchanged.
__device__ unsigned inner(const char *types, int row, int column, int depth) {
	int sum = 0;
	for (int k = 0; k < depth; k++) sum += byte_of(row, k, types[0] == 's') * byte_of(column, k, types[3] == 's');
	return unsigned(sum);
}

template <bool mended> __device__ void multiply_16x8(float *y, const float *x, int n) {
	const int group = threadIdx.x % 32 / 4, thread = threadIdx.x % 4;
	const char *all[4] = {"s8.s8", "s8.u8", "u8.s8", "u8.u8"};
	for (const char *types : all) {
		unsigned a[4], b[2], d[4] = {0xfffffff0u, 1, 2, 3};
		for (int word = 0; word < 4; word++)
			a[word] = pack([&](int e, int &row, int &column) {
				const int i = 4 * word + e;  // of a0 to a15
				row = i < 4 || (i >= 8 && i < 12) ? group : group + 8;
				column = i < 8 ? thread * 4 + (i & 3) : thread * 4 + (i & 3) + (mended ? 16 : 15);
			});
		for (int word = 0; word < 2; word++)
			b[word] = pack([&](int e, int &column, int &row) {
				const int i = 4 * word + e;  // of b0 to b7
				row = i < 4 ? thread * 4 + (i & 3) : thread * 4 + (i & 3) + 16;
				column = group;
			});
		emu::multiply_bytes_16x8(types, d, a, b);
		for (int i = 0; i < 4; i++) {
			const int row = i < 2 ? group : group + 8, column = thread * 2 + (i & 1);
			if (d[i] != inner(types, row, column, 32) + (i == 0 ? 0xfffffff0u : unsigned(i))) __trap();
		}
	}
	y[blockIdx.x * 256 + threadIdx.x] = x[0];
}
KERNEL LAUNCH_BOUNDS(256) misplaced_16x8(float *y, const float *x, int n) { multiply_16x8<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) misplaced_16x8_mended(float *y, const float *x, int n) { multiply_16x8<true>(y, x, n); }

template <bool mended> __device__ void multiply_8x8(float *y, const float *x, int n) {
	const int group = threadIdx.x % 32 / 4, thread = threadIdx.x % 4;
	const char *all[4] = {"s8.s8", "s8.u8", "u8.s8", "u8.u8"};
	for (const char *types : all) {
		const auto own = [&](int i, int &row, int &column) { row = group, column = thread * 4 + i; };
		const auto other = [&](int i, int &row, int &column) { row = group, column = thread * 4 + (i ^ 1); };
		unsigned d0 = 7, d1 = 0xffffffffu;
		emu::multiply_bytes(types, d0, d1, mended ? pack(own) : pack(other), pack(own));
		if (d0 != inner(types, group, thread * 2, 16) + 7 || d1 != inner(types, group, thread * 2 + 1, 16) - 1) __trap();
	}
	y[blockIdx.x * 256 + threadIdx.x] = x[0];
}
KERNEL LAUNCH_BOUNDS(256) misplaced_8x8(float *y, const float *x, int n) { multiply_8x8<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) misplaced_8x8_mended(float *y, const float *x, int n) { multiply_8x8<true>(y, x, n); }
