// The normals of package random, bit for bit: ChaCha20's block function (RFC 8439,
// section 2.3) in registers, and Box–Muller with every operation rounded separately.
// internal/random/gaussian.go defines which words give which normal; internal/random/boxmuller.go bounds
// their distance from Gaussian ones.
#pragma once

// A grain is the `grain` normals that grain_threads neighbouring threads compute
// together, from grain_blocks blocks of ChaCha20.
constexpr int grain = 512, grain_threads = 16, grain_blocks = 48;

// A key and a nonce identify a stream.
struct Key {
	unsigned word[8];
};

struct Nonce {
	unsigned word[3];
};

__device__ __forceinline__ unsigned rotate(unsigned x, int n) { return __funnelshift_l(x, x, n); }

__device__ __forceinline__ void quarter(unsigned &a, unsigned &b, unsigned &c, unsigned &d) {
	a += b;
	d = rotate(d ^ a, 16);
	c += d;
	b = rotate(b ^ c, 12);
	a += b;
	d = rotate(d ^ a, 8);
	c += d;
	b = rotate(b ^ c, 7);
}

__device__ __forceinline__ void chacha_state(unsigned (&x)[16], const Key &key, const Nonce &nonce, unsigned counter) {
	x[0] = 0x61707865, x[1] = 0x3320646e, x[2] = 0x79622d32, x[3] = 0x6b206574;
#pragma unroll
	for (int i = 0; i < 8; i++)
		x[4 + i] = key.word[i];
	x[12] = counter;
#pragma unroll
	for (int i = 0; i < 3; i++)
		x[13 + i] = nonce.word[i];
}

// chacha_blocks computes the blocks counter, counter+16, …: those that one thread of a
// grain computes. They are interleaved: each adds four independent chains.
template <int blocks> __device__ __forceinline__ void chacha_blocks(unsigned (&x)[blocks][16], const Key &key, const Nonce &nonce, unsigned counter) {
#pragma unroll
	for (int k = 0; k < blocks; k++)
		chacha_state(x[k], key, nonce, counter + 16 * k);
#pragma unroll 1
	for (int round = 0; round < 10; round++) {
#pragma unroll
		for (int i = 0; i < 4; i++)
#pragma unroll
			for (int k = 0; k < blocks; k++)
				quarter(x[k][i], x[k][4 + i], x[k][8 + i], x[k][12 + i]);
#pragma unroll
		for (int i = 0; i < 4; i++)
#pragma unroll
			for (int k = 0; k < blocks; k++)
				quarter(x[k][i], x[k][4 + (i + 1) % 4], x[k][8 + (i + 2) % 4], x[k][12 + (i + 3) % 4]);
	}
#pragma unroll
	for (int k = 0; k < blocks; k++) {
		unsigned first[16];
		chacha_state(first, key, nonce, counter + 16 * k);
#pragma unroll
		for (int i = 0; i < 16; i++)
			x[k][i] += first[i];
	}
}

// horner is p·x + c with two roundings.
__device__ __forceinline__ float horner(float p, float x, float c) { return __fadd_rn(__fmul_rn(p, x), c); }

// box_muller turns three words into two normals.
__device__ __forceinline__ float2 box_muller(unsigned hi, unsigned lo, unsigned angle) {
	float top = __fmul_rn((float)(int)(hi >> 8), 0x1p-24f);
	float mid = __fmul_rn((float)(int)((hi << 16 & 0xffffff) | lo >> 16), 0x1p-48f);
	float low = __fmul_rn(__fadd_rn((float)(int)(lo & 0xffff), 0.5f), 0x1p-64f);

	float tail = __fadd_rn(mid, low);
	float v = __fadd_rn(top, tail);
	float rest = __fsub_rn(tail, __fsub_rn(v, top));

	unsigned b = __float_as_uint(v) - 0x3f3504f3u;
	int e = (int)b >> 23;
	float m = __uint_as_float((b & 0x7fffff) + 0x3f3504f3u);
	float scale = __uint_as_float(0x3f800000u - (b & 0xff800000u));
	float f = __fadd_rn(__fsub_rn(m, 1.0f), __fmul_rn(rest, scale));

	float p = horner(0x1.38b590p-3f, f, -0x1.055b6cp-2f);
	p = horner(p, f, 0x1.0d8540p-2f);
	p = horner(p, f, -0x1.22da1cp-2f);
	p = horner(p, f, 0x1.547244p-2f);
	p = horner(p, f, -0x1.99a008p-2f);
	p = horner(p, f, 0x1.000226p-1f);
	p = horner(p, f, -0x1.555554p-1f);
	p = horner(p, f, 1.0f);
	p = horner(p, f, -2.0f);
	float r = __fsqrt_rn(__fadd_rn(__fmul_rn((float)e, -0x1.62e430p+0f), __fmul_rn(f, p)));

	float w = __fmul_rn((float)(int)((angle << 1 & 0x3ffffffe) | 1), 0x1p-30f);
	float z = __fmul_rn(w, w);
	float sine = horner(z, -0x1.2d9302p-15f, 0x1.465e92p-9f);
	sine = horner(z, sine, -0x1.4abbbap-4f);
	sine = horner(z, sine, 0x1.921fb6p-1f);
	sine = __fmul_rn(w, sine);
	float cosine = horner(z, 0x1.d9d57ep-19f, -0x1.55c5e0p-12f);
	cosine = horner(z, cosine, 0x1.03c1dep-6f);
	cosine = horner(z, cosine, -0x1.3bd3ccp-2f);
	cosine = horner(z, cosine, 1.0f);

	bool swap = angle << 2 >> 31;
	float x = __fmul_rn(r, swap ? sine : cosine), y = __fmul_rn(r, swap ? cosine : sine);
	return make_float2(__uint_as_float(__float_as_uint(x) ^ (angle & 0x80000000u)),
		__uint_as_float(__float_as_uint(y) ^ (angle << 1 & 0x80000000u)));
}
