// Numbers of the steps of sequences: blocks of steps, and the last step.
//
// Reads the marks of steps [B, T], which are below 0 for padding and above 0 where a block
// begins. Writes a number for each step [B, T].
//
// A thread reads the marks in front of its step, or behind it, up to the one that decides:
// about half a block of its own sequence, from the cache.
#include "device.h"
#include "each.h"

// block_begin is the first step of the block of step t.
__device__ __forceinline__ int block_begin(const float *marks, int t) {
	while (t > 0 && !(marks[t] > 0)) t--;
	return t;
}

KERNEL block_begins(int *out, const float *marks, int n, int steps) {
	EACH(i, n) {
		const int t = (int)i % steps;
		out[i] = block_begin(marks + (i - t), t);
	}
}

KERNEL block_steps(float *out, const float *marks, int n, int steps) {
	EACH(i, n) {
		const int t = (int)i % steps;
		out[i] = (float)(t - block_begin(marks + (i - t), t));
	}
}

// last_step writes 1 for the last step that is not padding, and 0 elsewhere.
KERNEL last_step(float *out, const float *marks, int n, int steps) {
	EACH(i, n) {
		int next = (int)i % steps + 1;
		const float *from = marks + (i + 1 - next);
		while (next < steps && from[next] < 0) next++;
		out[i] = marks[i] >= 0 && next == steps ? 1.0f : 0.0f;
	}
}
