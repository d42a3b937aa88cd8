// Instructions on the bytes of words: the selection of bytes, and the matrix instructions of warps,
// mma with the types .s8 and .u8 and sums of 32 bits. The positions of the elements are those of "PTX
// ISA 8.8", section 9.7.14.5, "Matrix fragments for mma.m8n8k16" and "for mma.m16n8k32". A lane
// passes words of four elements, the first in the low byte, and has sums.
#pragma once
#include "thread.h"

// __byte_perm selects each byte of the result from the eight bytes of low and high by four bits; the
// highest of these repeats the sign instead.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selectors) {
	const unsigned long long all = (unsigned long long)high << 32 | low;
	unsigned result = 0;
	for (int i = 0; i < 4; i++) {
		const unsigned s = selectors >> 4 * i & 15, byte = unsigned(all >> 8 * (s & 7)) & 255;
		result |= (s & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
	}
	return result;
}

namespace emu {

// The operands of the lanes of this warp. The threads of a block run on one thread of the host and
// exchange operands through its memory.
template <class T, int N> T (*operands())[N] {
	static thread_local T(*all)[32][N];  // of each warp; for the life of the thread
	if (all == nullptr) all = new T[32][32][N];
	return all[view.id / 32];
}

// products is the sum of the products of the bytes of two words. types is as in the instruction:
// "s8.u8" is a signed a and an unsigned b.
inline unsigned products(const char *types, uint32_t a, uint32_t b) {
	unsigned sum = 0;
	for (int i = 0; i < 32; i += 8) {
		uint8_t x = uint8_t(a >> i), y = uint8_t(b >> i);
		sum += unsigned((types[0] == 's' ? int8_t(x) : int(x)) * (types[3] == 's' ? int8_t(y) : int(y)));
	}
	return sum;
}

// multiply_bytes is m8n8k16. a has elements 4·(lane%4) to 4·(lane%4)+3 of row lane/4, b the same
// elements of column lane/4; the sums are those of row lane/4 and columns 2·(lane%4) and
// 2·(lane%4)+1.
inline void multiply_bytes(const char *types, unsigned &d0, unsigned &d1, uint32_t a, uint32_t b, EMU_HERE) {
	uint32_t(*all)[2] = operands<uint32_t, 2>();
	const int me = lane(), row = me / 4 * 4, column = me % 4 * 2 * 4;
	all[me][0] = a, all[me][1] = b;
	sync_warp(0xffffffff, EMU_SITE);
	for (int k = 0; k < 4; k++) {
		d0 += products(types, all[row + k][0], all[column + k][1]);
		d1 += products(types, all[row + k][0], all[column + 4 + k][1]);
	}
	sync_warp(0xffffffff, EMU_SITE);
}

// multiply_bytes_16x8 is m16n8k32. a has elements 4·(lane%4) to 4·(lane%4)+3 of rows lane/4 and
// lane/4+8, then elements 16 higher of both; b has both groups of column lane/4. The sums are those
// of rows lane/4 and lane/4+8, each with columns 2·(lane%4) and 2·(lane%4)+1.
inline void multiply_bytes_16x8(const char *types, unsigned (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], EMU_HERE) {
	uint32_t(*all)[6] = operands<uint32_t, 6>();
	const int me = lane();
	memcpy(all[me], a, sizeof a);
	memcpy(all[me] + 4, b, sizeof b);
	sync_warp(0xffffffff, EMU_SITE);
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 8; k++)
			d[i] += products(types, all[me / 4 * 4 + k % 4][k / 4 * 2 + i / 2], all[(me % 4 * 2 + i % 2) * 4 + k % 4][4 + k / 4]);
	sync_warp(0xffffffff, EMU_SITE);
}

}  // namespace emu
