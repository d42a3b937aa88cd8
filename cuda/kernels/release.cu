// The release: draws noise, adds it to the sums, scales the result and applies the
// optimizer, in one pass over all parameters.
//
// Reads and clears the sums; reads and writes the weights, their averages and the
// optimizer's numbers. Per weight: 16 bytes for SGD, 24 with momentum, 32 for Adam, 8
// more for an average.
//
// release_exact is the release of an exact program after rounded.cu has added the noise: its
// sums are released integers of 64 bits, 8 bytes more per weight, and it draws nothing.
//
// Noise. Element i gets normal i of the parameter's stream, with the same bits as
// package noise, and every operation is rounded as package optim rounds it. The key and
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
// time of one warp for its 1024 elements.
#include "device.h"
#include "noise.h"

struct Parameter {
	float *weights;
	void *sum;              // floats; of an exact program: integers of 64 bits
	float *average;         // null: there is no average
	float *first, *second;  // the optimizer's mean gradient and mean square; null: none
	int size;
	int block;  // its first block
};

struct Release {
	const Parameter *parameters;
	const int *block_parameter;  // of each block: the parameter that it processes
	const float *sigma;          // of each parameter; 0: no noise is drawn
	const double *unit;          // of each parameter of an exact program: the step per released integer
	Key key;
	unsigned lot[2];  // the nonce without its first word, the parameter
	int rule;
	float scale, rate, shrink, decay;
	float beta1, one_minus_beta1, beta2, one_minus_beta2, scale2, epsilon;
	float average;  // how far the average moves towards the weight; 0: it does not
};

// The optimizers by update rule, numbered as in cuda/release.go.
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

// IntegerGradient scales released integers.
struct IntegerGradient {
	int64_t *sum;
	double unit;

	__device__ __forceinline__ float read(int i) const { return (float)((double)sum[i] * unit); }
	__device__ __forceinline__ void clear(int i) const { sum[i] = 0; }
	__device__ __forceinline__ float release(float gradient, int) const { return gradient; }
};

// update updates count weights, 32 apart, from number `at` on. All are read before any
// is written, so that their loads overlap.
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
		w[k] = __fsub_rn(__fmul_rn(w[k], r.shrink), __fmul_rn(r.rate, g[k]));
		gradient.clear(at + 32 * k);
		v.weights[at + 32 * k] = w[k];
	}
	if (v.first)
#pragma unroll
		for (int k = 0; k < count; k++)
			v.first[at + 32 * k] = m[k];
	if (v.second)
#pragma unroll
		for (int k = 0; k < count; k++)
			v.second[at + 32 * k] = q[k];
	if (average)
#pragma unroll
		for (int k = 0; k < count; k++) {
			float moved = __fadd_rn(mean[k], __fmul_rn(r.average, __fsub_rn(w[k], mean[k])));
			v.average[at + 32 * k] = r.average == 1 ? w[k] : moved;
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

KERNEL LAUNCH_BOUNDS(32 * warps) release_exact(Release r) {
	int number = r.block_parameter[blockIdx.x];
	Parameter v = r.parameters[number];
	IntegerGradient gradient = {(int64_t *)v.sum, r.unit[number]};
	update_range(r, v, range_of(v), gradient, 0);
}
