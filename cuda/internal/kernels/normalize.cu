// Normalization of chunks of neighbouring elements, and its gradient.
//
// Reads x [chunks, size]; backward also the gradient of the result. Writes x with mean 0
// (optionally) and variance 1 in each chunk; backward the gradient of x.
//
// Chains of elementwise operations can precede and follow in the same launch (elements.h): a
// residual sum, a scale and a shift, an activation.
//
// Shape. One team of threads (team.h) processes a chunk: once for the mean, once for the
// squares about the mean, and once to write. All passes but the first read from the
// cache, so memory moves 8 bytes per element forward and 12 backward: 40 µs and 60 µs
// for 16.8 M elements (256 sequences of 128 rows of 512) at 3.35 TB/s.
//
// Means and squares are added in double: at most 4 conversions and 6 operations per
// element, for 12 bytes; 0.35 of the cycles in which memory delivers them on an H100 (16
// and 64 a cycle). On GPUs with few double units the arithmetic takes about as long as
// memory.
#include "device.h"
#include "elements.h"
#include "team.h"

struct Chunks {
	int count, size;
	int center;
	double epsilon;
};

// Mean is a mean in two floats; the second is the rounding error of the first. center
// subtracts the mean.
struct Mean {
	float value, rest;

	__device__ Mean(double m) : value((float)m), rest((float)(m - (double)(float)m)) {}
	__device__ float center(float x) const { return x - value - rest; }
};

// A row's elements of a chain are computed by the threads that read them.
template <class Team> __device__ __forceinline__ void compute_row(const Team &team, const Chain &chain, const Chunks &c) {
	const long long first = (long long)team.row * c.size;
	compute<4>(chain, first + team.rank, team.size, first + c.size);
}

template <class Team>
__device__ __forceinline__ void normalize(const Team &team, float *out, const float *x, const Chunks &c, const Chain &before, const Chain &after) {
	if (team.row >= c.count)
		return;
	compute_row(team, before, c);
	out += (long long)team.row * c.size;
	x += (long long)team.row * c.size;
	double mean = 0, squares = 0;
	if (c.center) {
#pragma unroll 4
		for (int i = team.rank; i < c.size; i += team.size)
			mean += x[i];
		mean = team.sum(mean) / c.size;
	}
#pragma unroll 4
	for (int i = team.rank; i < c.size; i += team.size) {
		double d = x[i] - mean;
		squares += d * d;
	}
	float scale = (float)(1 / sqrt(team.sum(squares) / c.size + c.epsilon));
	Mean m(mean);
#pragma unroll 4
	for (int i = team.rank; i < c.size; i += team.size)
		out[i] = m.center(x[i]) * scale;
	compute_row(team, after, c);
}

// normalize_gradient is (dx̂ − mean(dx̂) − x̂·mean(dx̂·x̂))/√(σ²+ε).
template <class Team>
__device__ __forceinline__ void normalize_gradient(const Team &team, float *out, const float *x, const float *gradient, const Chunks &c, const Chain &before, const Chain &after) {
	if (team.row >= c.count)
		return;
	compute_row(team, before, c);
	out += (long long)team.row * c.size;
	x += (long long)team.row * c.size;
	gradient += (long long)team.row * c.size;
	double mean = 0, total = 0, squares = 0, along = 0;
	if (c.center) {
#pragma unroll 4
		for (int i = team.rank; i < c.size; i += team.size) {
			mean += x[i];
			total += gradient[i];
		}
		mean = team.sum(mean) / c.size;
		total = team.sum(total);
	}
#pragma unroll 4
	for (int i = team.rank; i < c.size; i += team.size) {
		double d = x[i] - mean;
		squares += d * d;
		along += d * gradient[i];
	}
	double variance = team.sum(squares) / c.size + c.epsilon;
	along = team.sum(along);
	float scale = (float)(1 / sqrt(variance)), shift = (float)(total / c.size), slope = (float)(along / variance / c.size);
	Mean m(mean);
#pragma unroll 4
	for (int i = team.rank; i < c.size; i += team.size)
		out[i] = scale * (gradient[i] - shift - slope * m.center(x[i]));
	compute_row(team, after, c);
}

KERNEL LAUNCH_BOUNDS(128) normalize_warp(float *out, const float *x, Chunks c, Chain before, Chain after) {
	normalize(Warp(), out, x, c, before, after);
}

KERNEL LAUNCH_BOUNDS(1024, 1) normalize_block(float *out, const float *x, Chunks c, Chain before, Chain after) {
	SHARED(double, partial, 32);
	normalize(Block<decltype(partial)>(partial), out, x, c, before, after);
}

KERNEL LAUNCH_BOUNDS(128) normalize_gradient_warp(float *out, const float *x, const float *gradient, Chunks c, Chain before, Chain after) {
	normalize_gradient(Warp(), out, x, gradient, c, before, after);
}

KERNEL LAUNCH_BOUNDS(1024, 1) normalize_gradient_block(float *out, const float *x, const float *gradient, Chunks c, Chain before, Chain after) {
	SHARED(double, partial, 32);
	normalize_gradient(Block<decltype(partial)>(partial), out, x, gradient, c, before, after);
}
