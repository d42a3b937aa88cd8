// The release: draws noise, adds it to the sums, scales the result and applies the
// optimizer, in one pass over all parameters.
//
// Reads and clears the sums; reads and writes the weights, their averages and the
// optimizer's numbers. Per weight: 16 bytes for SGD, 24 with momentum, 32 for Adam, 8
// more for an average.
//
// The release of an exact program reads and clears integers of 64 bits, 8 bytes more per weight.
// It replaces a sum f by round((f + N)/g), with the bits of random.RoundedGaussian (rounded.h), in
// three stages. release_exact decides all but a thousandth of the integers in float32, and puts the
// others in a list. release_undecided computes those in float64, a thread for each, first from the
// same words, then with 64 more digits of both uniform numbers, and puts one in 10^11 in a second
// list, with its sum. The host decides these, and release_remaining updates their weights. The last block
// of release_undecided writes the lengths of both lists to memory of the host: no copy follows, and the
// host reads them when the device computes the next lot. The lists keep the
// threads of a warp busy together: in the first kernel, single float64 values would occupy whole
// warps, on many GPUs at a sixty-fourth of the rate of float32.
//
// Noise. Element i gets normal i of the parameter's stream, with the same bits as
// package random, and every operation is rounded as package optim rounds it. The key and
// the values that change with the lot are launch arguments: the key is in no memory that
// dptrain allocates on the device, and in no graph.
//
// Shape. A thread computes three blocks of ChaCha20 in registers, whose 48 words give 16
// pairs of normals; no word is unused. The normals go to the threads that own their
// elements through shared memory, each warp's 1024 within the warp, so that global
// memory is read and written in whole lines.
//
// Predicted for an H100 (132 multiprocessors at 1.755 GHz, 3.35 TB/s) from NVRTC's
// output for sm_90. A double round of three blocks is 96 logic operations, 96 rotations
// and 96 additions, 14 of which run on the multipliers; with ten of them a normal's
// share is 86 integer operations. Box–Muller adds 49 operations per normal, 13 of them
// on the integer lanes, and the update about 30 and 5. That is 104 on 64 integer lanes,
// 1.6 cycles, the tightest limit: 140 thousand million elements a second. Memory gives
// 209 with SGD, 140 with momentum, 105 with Adam. So SGD reaches 67% of the bandwidth,
// bound by integers (moving more additions to the multipliers would be the next step),
// momentum is at both limits, Adam is bound by memory. A hundred million weights: 0.71
// ms, 0.72 ms, 0.96 ms. A small network's release takes about 10,000 cycles, 6 µs: the
// time of one warp for its 1024 elements. A released integer needs two thirds of the words
// of a normal, so memory is the limit of an exact release: 139 thousand million elements
// a second with SGD.
#include "device.h"
#include "noise.h"
#include "rounded.h"

struct Parameter {
	float *weights;
	void *sum;              // floats; of an exact program: integers of 64 bits
	float *average;         // null: there is no average
	float *first, *second;  // the optimizer's mean gradient and mean square; null: none
	int size;
	int block;  // its first block
};

// Place is a weight.
struct Place {
	int parameter, element;
};

// Remainder is a weight that the host decides, and its sum.
struct Remainder {
	Place place;
	int64_t sum;
};

struct Release {
	const Parameter *parameters;
	const int *block_parameter;  // of each block: the parameter that it processes
	const float *sigma;          // of each parameter; 0: no noise is drawn
	const Rounding *roundings;   // of each parameter of an exact program
	Place *undecided;       // the weights left by the float32 stage
	Remainder *remaining;   // the weights left by the float64 stage
	int *counts;            // their numbers, and the number of blocks of release_undecided that are done
	int *published;         // their numbers in the host's memory
	Key key;
	unsigned lot[2];     // the nonce without its first word, the parameter
	unsigned digits[2];  // the same, of the further digits of an exact program
	int capacity;        // of each list; of release_remaining: the length of its list
	int rule;
	float scale, rate, shrink, decay;
	float beta1, one_minus_beta1, beta2, one_minus_beta2, scale2, epsilon;
	float average;  // how far the average moves towards the weight; 0: it does not
};

// The optimizers by update rule, numbered as in cuda/internal/compile/release.go.
enum Rule { plain, momentum, nesterov, adam, scaled };

// draw_normals stores a warp's normals, two grains from normal `first` on, in shared
// memory. The second grain is 16 places further, so that the halves of the warp write to
// different banks.
template <class S> __device__ __forceinline__ void draw_normals(S &normals, int at, const Key &key, const Nonce &nonce, int first) {
	int lane = threadIdx.x % 32;
	int half = lane / grain_threads, l = lane % grain_threads;
	unsigned words[3][16];
	chacha_blocks(words, key, nonce, (unsigned)(first / grain + half) * grain_blocks + l);
	at += half * (grain + 16) + l;
#pragma unroll
	for (int j = 0; j < 16; j++) {
		float2 pair = box_muller(words[0][j], words[1][j], words[2][j]);
		normals[at + 32 * j] = pair.x;
		normals[at + 32 * j + 16] = pair.y;
	}
}

// multiply_add is keep·x + step with two roundings.
__device__ __forceinline__ float multiply_add(float keep, float x, float step) { return __fadd_rn(__fmul_rn(keep, x), step); }

// Gradient reads sums, adds the noise and scales the result. With sigma 0 no noise is added.
template <class S> struct Gradient {
	float *sum;
	float sigma, scale;
	S &normals;

	__device__ __forceinline__ bool decided(int) const { return true; }

	__device__ __forceinline__ float read(int i) const { return sum[i]; }
	__device__ __forceinline__ void clear(int i) const { sum[i] = 0; }
	__device__ __forceinline__ float release(float sum, int drawn) const {
		if (sigma > 0) {
			float normal = normals[drawn];
			sum = __fadd_rn(sum, __fmul_rn(sigma, normal));
		}
		return __fmul_rn(sum, scale);
	}
};

// RoundedGradient reads gradients from shared memory. NaN is one that float32 does not decide.
template <class S> struct RoundedGradient {
	int64_t *sum;
	S &gradients;

	__device__ __forceinline__ float read(int) const { return 0; }
	__device__ __forceinline__ void clear(int i) const { sum[i] = 0; }
	__device__ __forceinline__ float release(float, int drawn) const { return gradients[drawn]; }
	__device__ __forceinline__ bool decided(int drawn) const { return gradients[drawn] == gradients[drawn]; }
};

// OneGradient is the gradient of one weight.
struct OneGradient {
	int64_t *sum;
	float gradient;

	__device__ __forceinline__ float read(int) const { return 0; }
	__device__ __forceinline__ void clear(int i) const { sum[i] = 0; }
	__device__ __forceinline__ float release(float, int) const { return gradient; }
	__device__ __forceinline__ bool decided(int) const { return true; }
};

// update updates count weights, 32 apart, from number `at` on, except those whose gradient is not
// decided. All are read before any is written, so that their loads overlap.
template <int count, class G>
__device__ __forceinline__ void update(const Release &r, const Parameter &v, int at, const G &gradient, int drawn) {
	bool average = v.average && r.average > 0;
	float g[count], w[count], m[count] = {}, q[count] = {}, mean[count] = {};
#pragma unroll
	for (int k = 0; k < count; k++) {
		g[k] = gradient.read(at + 32 * k);
		w[k] = v.weights[at + 32 * k];
	}
	if (v.first)
#pragma unroll
		for (int k = 0; k < count; k++)
			m[k] = v.first[at + 32 * k];
	if (v.second)
#pragma unroll
		for (int k = 0; k < count; k++)
			q[k] = v.second[at + 32 * k];
	if (average)
#pragma unroll
		for (int k = 0; k < count; k++)
			mean[k] = v.average[at + 32 * k];

#pragma unroll
	for (int k = 0; k < count; k++)
		g[k] = __fadd_rn(gradient.release(g[k], drawn + 32 * k), __fmul_rn(r.decay, w[k]));

	// From here on g is the step.
	switch (r.rule) {
	case momentum:
#pragma unroll
		for (int k = 0; k < count; k++)
			g[k] = m[k] = multiply_add(r.beta1, m[k], g[k]);
		break;
	case nesterov:
#pragma unroll
		for (int k = 0; k < count; k++) {
			m[k] = multiply_add(r.beta1, m[k], g[k]);
			g[k] = __fadd_rn(g[k], __fmul_rn(r.beta1, m[k]));
		}
		break;
	case adam:
	case scaled:
#pragma unroll
		for (int k = 0; k < count; k++) {
			q[k] = multiply_add(r.beta2, q[k], __fmul_rn(__fmul_rn(r.one_minus_beta2, g[k]), g[k]));
			if (r.rule == adam)
				g[k] = m[k] = multiply_add(r.beta1, m[k], __fmul_rn(r.one_minus_beta1, g[k]));
			g[k] = __fdiv_rn(g[k], __fadd_rn(__fmul_rn(__fsqrt_rn(q[k]), r.scale2), r.epsilon));
		}
	}

#pragma unroll
	for (int k = 0; k < count; k++) {
		if (!gradient.decided(drawn + 32 * k)) continue;
		const int i = at + 32 * k;
		w[k] = __fsub_rn(__fmul_rn(w[k], r.shrink), __fmul_rn(r.rate, g[k]));
		gradient.clear(i);
		v.weights[i] = w[k];
		if (v.first) v.first[i] = m[k];
		if (v.second) v.second[i] = q[k];
		if (average) {
			float moved = __fadd_rn(mean[k], __fmul_rn(r.average, __fsub_rn(w[k], mean[k])));
			v.average[i] = r.average == 1 ? w[k] : moved;
		}
	}
}

constexpr int warps = 4;                  // of a block
constexpr int warp_elements = 2 * grain;  // that a warp updates
constexpr int per_thread = 4;             // elements that a thread updates at a time

// Range is the part of a parameter that a warp updates.
struct Range {
	int from, n;
};

__device__ __forceinline__ Range range_of(const Parameter &v) {
	int from = ((int)blockIdx.x - v.block) * (warps * warp_elements) + (int)threadIdx.x / 32 * warp_elements;
	return {from, min(warp_elements, v.size - from)};
}

template <class G> __device__ __forceinline__ void update_range(const Release &r, const Parameter &v, const Range &range, const G &gradient, int drawn) {
	int i = threadIdx.x % 32;
	for (; i + 32 * (per_thread - 1) < range.n; i += 32 * per_thread)
		update<per_thread>(r, v, range.from + i, gradient, drawn + i + i / grain * 16);
	for (; i < range.n; i += 32)
		update<1>(r, v, range.from + i, gradient, drawn + i + i / grain * 16);
}

KERNEL LAUNCH_BOUNDS(32 * warps) release(Release r) {
	SHARED(float, normals, warps * (warp_elements + 32));
	int warp = threadIdx.x / 32, number = r.block_parameter[blockIdx.x];
	Parameter v = r.parameters[number];
	Range range = range_of(v);
	if (range.n <= 0)
		return;

	float sigma = r.sigma[number];
	int drawn = warp * (warp_elements + 32);
	if (sigma > 0) {
		Nonce nonce = {{(unsigned)number, r.lot[0], r.lot[1]}};
		draw_normals(normals, drawn, r.key, nonce, range.from);
		__syncwarp();
	}
	Gradient<decltype(normals)> gradient = {(float *)v.sum, sigma, r.scale, normals};
	update_range(r, v, range, gradient, drawn);
}

template <class T> __device__ __forceinline__ void append(T *list, int *count, int capacity, const T &entry) {
	int at = atomicAdd(count, 1);
	if (at < capacity)
		list[at] = entry;
}

// publish_counts writes the lengths of both lists to the host's memory and clears them, after the last
// block has called it. All threads of the block call it.
__device__ __forceinline__ void publish_counts(const Release &r) {
	__threadfence();  // the thread's entries come before the block's turn
	__syncthreads();
	if (threadIdx.x != 0 || atomicAdd(&r.counts[2], 1) != (int)gridDim.x - 1)
		return;
	r.published[0] = atomicExch(&r.counts[0], 0);
	r.published[1] = atomicExch(&r.counts[1], 0);
	atomicExch(&r.counts[2], 0);
}

// released is the gradient of a released integer.
__device__ __forceinline__ float released(const Rounding &now, int64_t integer) { return (float)((double)integer * now.unit); }

// round_sums stores a warp's gradients, two batches from element `first` on, in shared memory, as
// draw_normals does.
template <class S> __device__ __forceinline__ void round_sums(const Release &r, S &gradients, int at, int number, const Parameter &v, int first) {
	static_assert(batch_values == grain && batch_values / 32 == grain_threads, "a warp rounds the sums of its elements");
	const int half = threadIdx.x % 32 / grain_threads, l = threadIdx.x % grain_threads;
	const Rounding now = r.roundings[number];
	const int64_t *sums = (const int64_t *)v.sum;
	unsigned words[2][16];
	chacha_blocks(words, r.key, Nonce{{(unsigned)number, r.lot[0], r.lot[1]}}, (unsigned)(first / batch_values + half) * batch_blocks + l);
	at += half * (grain + 16) + l;
	first += half * grain + l;
#pragma unroll
	for (int j = 0; j < 16; j++) {
		const FastPair p = fast_pair(now, words[0][j], words[1][j]);
#pragma unroll
		for (int second = 0; second < 2; second++) {
			const int place = 32 * j + 16 * second, i = first + place;
			if (i >= v.size)
				continue;
			int64_t sum = sums[i];
			float gradient = NAN;
			if (fast_round(now, p, second ? p.y : p.x, sum))
				gradient = released(now, sum);
			else
				append(r.undecided, &r.counts[0], r.capacity, Place{number, i});
			gradients[at + place] = gradient;
		}
	}
}

KERNEL LAUNCH_BOUNDS(32 * warps) release_exact(Release r) {
	SHARED(float, gradients, warps * (warp_elements + 32));
	int warp = threadIdx.x / 32, number = r.block_parameter[blockIdx.x];
	Parameter v = r.parameters[number];
	Range range = range_of(v);
	if (range.n <= 0)
		return;
	int drawn = warp * (warp_elements + 32);
	round_sums(r, gradients, drawn, number, v, range.from);
	__syncwarp();
	update_range(r, v, range, RoundedGradient<decltype(gradients)>{(int64_t *)v.sum, gradients}, drawn);
}

KERNEL LAUNCH_BOUNDS(32 * warps) release_undecided(Release r) {
	int count = min(r.counts[0], r.capacity);
	for (int at = blockIdx.x * (32 * warps) + threadIdx.x; at < count; at += gridDim.x * (32 * warps)) {
		const Place place = r.undecided[at];
		const Parameter v = r.parameters[place.parameter];
		const Rounding now = r.roundings[place.parameter];
		const int i = place.element, batch = i / batch_values, k = i % batch_values;
		const int row = k / 32, lane = k % 16;
		const bool second = k % 32 >= 16;
		unsigned words[2][16], word = 0, angle = 0;
		chacha_blocks(words, r.key, Nonce{{(unsigned)place.parameter, r.lot[0], r.lot[1]}}, (unsigned)batch * batch_blocks + lane);
#pragma unroll
		for (int j = 0; j < 16; j++)  // registers have no index
			if (j == row)
				word = words[0][j], angle = words[1][j];

		Uniforms x = first_digits(word, angle, second);
		int64_t *sums = (int64_t *)v.sum, cell;
		bool decided = round64(now, x, sums[i], cell);
		if (!decided) {
			unsigned block[1][16];
			chacha_blocks(block, r.key, Nonce{{(unsigned)place.parameter, r.digits[0], r.digits[1]}}, (unsigned)batch * (batch_values / 2) + 16 * row + lane);
			Key key;
#pragma unroll
			for (int j = 0; j < 8; j++)
				key.word[j] = block[0][j];
			chacha_blocks(block, key, Nonce{{0, 0, 0}}, 0);
			uint64_t u = (uint64_t)block[0][1] << 32 | block[0][0], w = (uint64_t)block[0][3] << 32 | block[0][2];
			decided = round64(now, more_digits(x, u, w), sums[i], cell);
		}
		if (decided)
			update<1>(r, v, i, OneGradient{sums, released(now, whole_steps(now, sums[i]) + cell)}, 0);
		else  // a microbatch may add to the sum before the host reads the list
			append(r.remaining, &r.counts[1], r.capacity, Remainder{place, sums[i]});
	}
	publish_counts(r);
}

// release_remaining updates the weights of the second list, whose sums the host has set.
KERNEL LAUNCH_BOUNDS(32 * warps) release_remaining(Release r) {
	for (int at = blockIdx.x * (32 * warps) + threadIdx.x; at < r.capacity; at += gridDim.x * (32 * warps)) {
		const Place place = r.remaining[at].place;
		const Parameter v = r.parameters[place.parameter];
		int64_t *sums = (int64_t *)v.sum;
		update<1>(r, v, place.element, OneGradient{sums, released(r.roundings[place.parameter], sums[place.element])}, 0);
	}
}
