// The rounded Gaussian of package random: the same integers as random.RoundedGaussian. Every
// stage has a bound on its error, decides only the values that the bound permits, and leaves the
// others to the next stage. internal/random/rounded32.go and internal/random/rounded64.go prove the bounds; they
// hold with and without fused multiply-adds.
#pragma once
#include "device.h"
#include "noise.h"

// A batch is 512 values, which 16 threads compute together, each from two blocks.
constexpr int batch_values = 512, batch_blocks = 32;

// Rounding is the noise of a parameter: struct RoundingConstants of package random.
struct Rounding {
	double steps;               // Sigma/g
	double unit;                // of the gradient, per released integer
	int grid, bits;             // g is 2^grid; the float32 stage has units of 2^-bits·g
	float scale, slope, base;
	int _;
};

// FastPair is what the float32 stage knows of a pair.
struct FastPair {
	float x, y, radius, shifted;
	unsigned twice_error;
	bool known;
};

__device__ __forceinline__ FastPair fast_pair(const Rounding &now, unsigned word, unsigned angle) {
	FastPair p;
	p.known = word + (1u << 16) >= (1u << 19) + (1u << 16);
	float t = (float)(int)word;
	float c = (int)word < 0 ? 0x1p32f : 0.0f;
	unsigned b = __float_as_uint(t + c) - (0x3f3504f3u + (32u << 23));
	float e = (float)((int)b >> 23);
	float unit = __uint_as_float(0x3f800000u - (32u << 23) - (b & 0xff800000u));
	float f = fmaf(t, unit, fmaf(c, unit, -1.0f));
	float p_log = fmaf(f, -0x1.645edcp-3f, 0x1.2432bep-2f);
	p_log = fmaf(f, p_log, -0x1.317452p-2f);
	p_log = fmaf(f, p_log, 0x1.538248p-2f);
	p_log = fmaf(f, p_log, -0x1.98d7f4p-2f);
	p_log = fmaf(f, p_log, 0x1.000382p-1f);
	p_log = fmaf(f, p_log, -0x1.5556d8p-1f);
	p_log = fmaf(f, p_log, 1.0f);
	p_log = fmaf(f, p_log, -2.0f);
	float r = __fsqrt_rn(fmaf(f, p_log, e * -0x1.62e430p+0f));
	p.radius = r * now.scale;
	p.shifted = fmaf(r, now.slope, now.base);
	p.twice_error = (unsigned)__float2int_rn(p.shifted) << (33 - now.bits);

	float w = (float)(int)(angle << 2) * 0x1p-31f;
	float z = w * w;
	float sine = fmaf(z, -0x1.2cfcc8p-15f, 0x1.465a72p-9f);
	sine = fmaf(z, sine, -0x1.4abba8p-4f);
	sine = fmaf(z, sine, 0x1.921fb4p-1f) * w;
	float cosine = fmaf(z, -0x1.4f107ap-12f, 0x1.03b3bep-6f);
	cosine = fmaf(z, cosine, -0x1.3bd3aep-2f);
	cosine = fmaf(z, cosine, 1.0f);
	cosine = __uint_as_float(__float_as_uint(cosine) ^ (angle & 0x80000000u));
	bool swap = angle >> 30 & 1;
	p.x = swap ? sine : cosine;
	p.y = swap ? cosine : sine;
	return p;
}

// whole_steps is f/g rounded down; rest is what remains, in units of 2^-bits·g, rounded down.
__device__ __forceinline__ int64_t whole_steps(const Rounding &now, int64_t f) {
	return now.grid <= 0 ? (int64_t)((uint64_t)f << -now.grid) : f >> now.grid;
}

__device__ __forceinline__ int rest(const Rounding &now, int64_t f) {
	if (now.grid <= 0)
		return 0;
	int64_t below = f & (((int64_t)1 << now.grid) - 1);
	return (int)(now.grid > now.bits ? below >> (now.grid - now.bits) : below << (now.bits - now.grid));
}

// fast_round rounds the sum of one value in float32. It returns false, and leaves the sum as
// it is, if that does not decide.
__device__ __forceinline__ bool fast_round(const Rounding &now, const FastPair &p, float z, int64_t &sum) {
	if (!p.known)
		return false;
	int shifted = rest(now, sum) + __float2int_rn(fmaf(z, p.radius, p.shifted));
	if ((unsigned)shifted << (32 - now.bits) < p.twice_error)
		return false;
	sum = whole_steps(now, sum) + (shifted >> now.bits);
	return true;
}

// Uniforms are intervals of u and w, as type pair of package random.
struct Uniforms {
	uint64_t u;
	int64_t w;
	double u_width, w_width;
	bool negative, sine;
};

__device__ __forceinline__ Uniforms first_digits(unsigned word, unsigned angle, bool second) {
	return {(uint64_t)word << 32 | 0x7fffffffu, (int64_t)((uint64_t)angle << 34) + ((int64_t)1 << 33),
		0x1p31 + 1, 0x1p33, angle >> 31 == 1, (angle >> 30 & 1) != (unsigned)second};
}

__device__ __forceinline__ Uniforms more_digits(Uniforms x, uint64_t u, uint64_t w) {
	const uint64_t known = ~(((uint64_t)1 << 34) - 1);
	x.u = (x.u & 0xffffffff00000000u) | u >> 32;
	x.w = (int64_t)(((uint64_t)x.w & known) | w >> 30);
	x.u_width = 0.5, x.w_width = 1;
	return x;
}

// minus_log is -ln((u + 1/2)/2^64): negativeLog of package random.
__device__ __forceinline__ double minus_log(uint64_t u) {
	double top = (double)(unsigned)(u >> 32) * 0x1p-32, low = ((double)(unsigned)u + 0.5) * 0x1p-64;
	double v = top + low, below = low - (v - top);
	const uint64_t sqrt_half = 0x3fe6a09e667f3bcd, mantissa = ((uint64_t)1 << 52) - 1;
	uint64_t b = (uint64_t)__double_as_longlong(v) - sqrt_half;
	int e = (int)((int64_t)b >> 52);
	double m = __longlong_as_double((int64_t)((b & mantissa) + sqrt_half));
	double unit = __longlong_as_double((int64_t)(((uint64_t)0x3ff << 52) - (b & ~mantissa)));
	double f = (m - 1) + below * unit, s = f / (2 + f), square = s * s, sum = 0;
#pragma unroll
	for (int k = 21; k >= 1; k -= 2)
		sum = sum * square + 2.0 / k;
	return -e * 0x1.62e42fefa39efp-1 - s * sum;
}

// normal64 is normal of package random: the normal at the middle of the intervals, and the
// bound on its error.
__device__ __forceinline__ double normal64(const Uniforms &x, double &error) {
	const double centre = (double)x.u + 0.5, quarter = 0x1.921fb54442d18p-1 * 0x1p-63;
	error = INFINITY;
	if (centre <= x.u_width)
		return 0;
	double r = sqrt(2 * minus_log(x.u)), phi = (double)x.w * quarter, square = phi * phi;
	double sum = x.sine ? 0 : 1.0 / 20922789888000.0;  // the Taylor series
	sum = sum * square + (x.sine ? -1.0 / 1307674368000.0 : -1.0 / 87178291200.0);
	sum = sum * square + (x.sine ? 1.0 / 6227020800.0 : 1.0 / 479001600.0);
	sum = sum * square + (x.sine ? -1.0 / 39916800 : -1.0 / 3628800);
	sum = sum * square + (x.sine ? 1.0 / 362880 : 1.0 / 40320);
	sum = sum * square + (x.sine ? -1.0 / 5040 : -1.0 / 720);
	sum = sum * square + (x.sine ? 1.0 / 120 : 1.0 / 24);
	sum = sum * square + (x.sine ? -1.0 / 6 : -1.0 / 2);
	sum = sum * square + (x.sine ? 1.0 / 1 : 1.0 / 1);
	double z = r * (x.sine ? phi * sum : sum);
	double moved = 2 * x.u_width / ((centre - x.u_width) * r);
	error = 0x1p-47 * r + moved + (r + moved) * quarter * x.w_width;
	return x.negative && !x.sine ? -z : z;
}

// round64 sets cell to round((f + N)/g) less the whole grid steps of f, and returns whether the
// bound decides it: cell64 of package random.
__device__ __forceinline__ bool round64(const Rounding &now, const Uniforms &x, int64_t f, int64_t &cell) {
	double error, z = normal64(x, error), part = 0;
	if (now.grid > 0)  // exact: below 2^52
		part = (double)(f & (((int64_t)1 << now.grid) - 1)) * __longlong_as_double((int64_t)(1023 - now.grid) << 52);
	double y = part + now.steps * z;
	error = 1.001 * now.steps * error + 0x1p-50 * (fabs(y) + 1);
	double low = floor(y - error + 0.5), high = floor(y + error + 0.5);
	bool decided = low == high;
	cell = decided ? (int64_t)low : 0;
	return decided;
}
