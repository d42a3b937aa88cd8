// Dropout with a public generator: out is x times the scale where its word of
// Philox-4x32-10 is at least the threshold, and 0 elsewhere. internal/op documents the
// computation, and why a mask may depend only on an example's mask seed; the words are
// the same to the bit.
//
// A thread computes one counter, whose four words serve four neighbouring elements: 8
// bytes and some 30 instructions per element, 2.4 µs per million by memory at 3.35 TB/s,
// and about as long by integer multiplications (64 a clock and multiprocessor).
#include "device.h"
#include "each.h"
#include "divide.h"

struct Words {
	unsigned at[4];
};

// philox is op.Philox (Salmon et al. 2011, section 3).
__device__ __forceinline__ Words philox(unsigned c0, unsigned c1, unsigned c2, unsigned c3, unsigned k0, unsigned k1) {
#pragma unroll
	for (int round = 0; round < 10; round++) {
		unsigned long long a = (unsigned long long)0xD2511F53u * c0, b = (unsigned long long)0xCD9E8D57u * c2;
		c0 = (unsigned)(b >> 32) ^ c1 ^ k0;
		c1 = (unsigned)b;
		c2 = (unsigned)(a >> 32) ^ c3 ^ k1;
		c3 = (unsigned)a;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	return Words{{c0, c1, c2, c3}};
}

// ticket_half returns one half of a drawn number or of a step, and marks it if it is not
// one.
__device__ __forceinline__ unsigned long long ticket_half(float v, bool &ok) {
	ok = ok && v >= 0 && v < 16777216.0f;
	return ok ? (unsigned long long)v : 0;
}

// dropout has one thread for each of count counters; an example of n elements has as
// many counters as `blocks` divides by.
KERNEL dropout(float *out, const float *x, const float *tickets, int count, Divider blocks, int n, unsigned k0, unsigned k1, unsigned least, float scale) {
	EACH(i, count) {
		int block, example = divide(blocks, (int)i, block);
		const float *ticket = tickets + 4 * example;
		bool ok = true;
		unsigned long long row = ticket_half(ticket[0], ok), step;
		row |= ticket_half(ticket[1], ok) << 24;
		step = ticket_half(ticket[2], ok);
		step |= ticket_half(ticket[3], ok) << 24;
		Words words = philox(block, (unsigned)row, (unsigned)step, (unsigned)(row >> 32 | step >> 32 << 16), k0, k1);
		long long at = (long long)example * n + 4 * block;
#pragma unroll
		for (int j = 0; j < 4; j++)
			if (4 * block + j < n)
				out[at + j] = !ok ? NAN : words.at[j] >= least ? x[at + j] * scale : 0.0f;
	}
}
