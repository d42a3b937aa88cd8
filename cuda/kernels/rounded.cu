// The noise of an exact release: replaces integer sums f by round((f + N)/g), with the bits
// of noise.RoundedGaussian. Memory traffic: eight bytes read and written for each sum.
//
// round_sums decides all but a thousandth in float32. A thread computes two blocks of
// ChaCha20 in registers, whose words are 16 pairs of values. Sixteen threads have
// neighbouring values, so a half warp reads and writes 128 contiguous bytes. Undecided
// values go to a list.
//
// A launch is a batch of vectors, so that a network with many small parameters does not start
// two kernels for each.
//
// round_undecided computes those in float64, a thread for each, first from the same words,
// then with 64 more digits of both uniform numbers. One in 10^11 values is left for the
// host. The list keeps the threads of a warp busy together: in the first kernel, single
// float64 values would occupy whole warps, on many GPUs at a sixty-fourth of the rate of
// float32.
#include "batch.h"
#include "rounded.h"

constexpr int warps = 4;

__device__ __forceinline__ void append(int *list, int *count, int capacity, int value) {
	int at = atomicAdd(count, 1);
	if (at < capacity)
		list[at] = value;
}

KERNEL LAUNCH_BOUNDS(32 * warps) round_sums(Batch<Rounding> batched) {
	const BatchBlock block(batched);
	const Rounding &now = batched.arguments[block.part];
	int thread = block.x * (32 * warps) + threadIdx.x, lane = threadIdx.x % 16;
	int batch = thread / 16, first = batch * batch_values + lane;
	if (first >= now.size)
		return;
	unsigned words[2][16];
	chacha_blocks(words, now.key, now.words, (unsigned)batch * batch_blocks + lane);
#pragma unroll
	for (int j = 0; j < 16; j++) {
		FastPair p = fast_pair(now, words[0][j], words[1][j]);
#pragma unroll
		for (int second = 0; second < 2; second++) {
			int i = first + 32 * j + 16 * second;
			if (i >= now.size)
				continue;
			int64_t sum = now.sums[i];
			if (fast_round(now, p, second ? p.y : p.x, sum))
				now.sums[i] = sum;
			else
				append(now.undecided, &now.counts[0], now.capacity, i);
		}
	}
}

KERNEL LAUNCH_BOUNDS(32 * warps) round_undecided(Batch<Rounding> batched) {
	const BatchBlock here(batched);
	const Rounding &now = batched.arguments[here.part];
	int count = min(now.counts[0], now.capacity);
	for (int at = here.x * (32 * warps) + threadIdx.x; at < count; at += here.grid_x * (32 * warps)) {
		int i = now.undecided[at], batch = i / batch_values, k = i % batch_values;
		int row = k / 32, lane = k % 16;
		bool second = k % 32 >= 16;
		unsigned words[2][16], word = 0, angle = 0;
		chacha_blocks(words, now.key, now.words, (unsigned)batch * batch_blocks + lane);
#pragma unroll
		for (int j = 0; j < 16; j++)  // registers have no index
			if (j == row)
				word = words[0][j], angle = words[1][j];

		Uniforms x = first_digits(word, angle, second);
		int64_t sum = now.sums[i], cell;
		bool decided = round64(now, x, sum, cell);
		if (!decided) {
			unsigned block[1][16];
			chacha_blocks(block, now.key, now.digits, (unsigned)batch * (batch_values / 2) + 16 * row + lane);
			Key key;
#pragma unroll
			for (int j = 0; j < 8; j++)
				key.word[j] = block[0][j];
			chacha_blocks(block, key, Nonce{{0, 0, 0}}, 0);
			uint64_t u = (uint64_t)block[0][1] << 32 | block[0][0], w = (uint64_t)block[0][3] << 32 | block[0][2];
			decided = round64(now, more_digits(x, u, w), sum, cell);
		}
		if (decided)
			now.sums[i] = whole_steps(now, sum) + cell;
		else
			append(now.remaining, &now.counts[1], now.capacity, i);
	}
}
