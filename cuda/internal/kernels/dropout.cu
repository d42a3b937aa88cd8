// Dropout with a public generator.
//
// Reads x and the mask seeds of the examples [examples, 4]. Writes x times the scale
// where the element's word of Philox-4x32-10 is at least the threshold, and 0 elsewhere.
// internal/device/op documents the computation, and why a mask may depend only on an example's
// mask seed; the words are the same to the bit.
//
// Shape. A thread computes one counter, whose four words serve four neighbouring
// elements: 8 bytes and some 30 instructions per element, 2.4 µs per million by memory
// at 3.35 TB/s, and about as long by integer multiplications (64 a clock and
// multiprocessor).
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

// seed_half converts one of the four numbers of a mask seed, 24 bits of the drawn number
// or of the step. It clears ok if the number is not in range.
__device__ __forceinline__ unsigned long long seed_half(float v, bool &ok) {
	ok = ok && v >= 0 && v < 16777216.0f;
	return ok ? (unsigned long long)v : 0;
}

// dropout uses one thread per counter. An example of n elements has by_counters.by
// counters.
KERNEL dropout(float *out, const float *x, const float *mask_seeds, int count, Divider by_counters, int n, unsigned k0, unsigned k1, unsigned threshold, float scale) {
	EACH(i, count) {
		int block, example = divide(by_counters, (int)i, block);
		const float *mask_seed = mask_seeds + 4 * example;
		bool ok = true;
		unsigned long long row = seed_half(mask_seed[0], ok), step;
		row |= seed_half(mask_seed[1], ok) << 24;
		step = seed_half(mask_seed[2], ok);
		step |= seed_half(mask_seed[3], ok) << 24;
		Words words = philox(block, (unsigned)row, (unsigned)step, (unsigned)(row >> 32 | step >> 32 << 16), k0, k1);
		long long at = (long long)example * n + 4 * block;
#pragma unroll
		for (int j = 0; j < 4; j++)
			if (4 * block + j < n)
				out[at + j] = !ok ? NAN : words.at[j] >= threshold ? x[at + j] * scale : 0.0f;
	}
}
