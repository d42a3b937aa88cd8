// CUDA's arithmetic functions for g++. The file is compiled without contraction, so
// that a*b+c is rounded twice, fmaf once, and the _rn forms are plain operators.
#pragma once
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "vectors.h"

// Reinterpretation of bits.
#define EMU_BITS(name, From, To)          \
	inline To name(From x) {              \
		To y;                             \
		memcpy(&y, &x, sizeof y);         \
		return y;                         \
	}
EMU_BITS(__float_as_uint, float, unsigned)
EMU_BITS(__float_as_int, float, int)
EMU_BITS(__uint_as_float, unsigned, float)
EMU_BITS(__int_as_float, int, float)
EMU_BITS(__double_as_longlong, double, long long)
EMU_BITS(__longlong_as_double, long long, double)
#undef EMU_BITS
inline int __double2hiint(double x) { return int(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return int(__double_as_longlong(x)); }
inline double __hiloint2double(int high, int low) {
	return __longlong_as_double((long long)((unsigned long long)(unsigned)high << 32 | (unsigned)low));
}

// Integers.
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline unsigned long long __brevll(unsigned long long x) {
	x = (x >> 1 & 0x5555555555555555ull) | (x & 0x5555555555555555ull) << 1;
	x = (x >> 2 & 0x3333333333333333ull) | (x & 0x3333333333333333ull) << 2;
	x = (x >> 4 & 0x0f0f0f0f0f0f0f0full) | (x & 0x0f0f0f0f0f0f0f0full) << 4;
	return __builtin_bswap64(x);
}
inline unsigned __brev(unsigned x) { return unsigned(__brevll(x) >> 32); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) {
	return unsigned((((unsigned long long)high << 32 | low) << (n & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) {
	return unsigned(((unsigned long long)high << 32 | low) >> (n & 31));
}
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
	return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline int __mul24(int a, int b) {
	return int((unsigned)(a << 8 >> 8) * (unsigned)(b << 8 >> 8));
}
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
	unsigned long long bytes = (unsigned long long)b << 32 | a;
	unsigned result = 0;
	for (int i = 0; i < 4; i++) {
		unsigned s = selector >> (4 * i);
		unsigned byte = unsigned(bytes >> (8 * (s & 7))) & 0xff;
		if (s & 8) byte = byte & 0x80 ? 0xff : 0;
		result |= byte << (8 * i);
	}
	return result;
}

// The lesser and the greater. For floats they pass over a NaN, as CUDA's do.
#define EMU_ORDER(T)                                       \
	inline T min(T a, T b) { return b < a ? b : a; }       \
	inline T max(T a, T b) { return a < b ? b : a; }
EMU_ORDER(int)
EMU_ORDER(unsigned)
EMU_ORDER(long)
EMU_ORDER(unsigned long)
EMU_ORDER(long long)
EMU_ORDER(unsigned long long)
#undef EMU_ORDER
inline unsigned min(int a, unsigned b) { return min(unsigned(a), b); }
inline unsigned min(unsigned a, int b) { return min(a, unsigned(b)); }
inline unsigned max(int a, unsigned b) { return max(unsigned(a), b); }
inline unsigned max(unsigned a, int b) { return max(a, unsigned(b)); }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(a, b); }
inline double min(double a, float b) { return fmin(a, b); }
inline double max(float a, double b) { return fmax(a, b); }
inline double max(double a, float b) { return fmax(a, b); }

// One rounding each.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __frcp_rn(float a) { return 1 / a; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fdividef(float a, float b) { return a / b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }

// Conversions. Out of range they end at the nearest integer there is, NaN at zero.
namespace emu {
template <class To, class From> To clamped(From x, double low, double high) {
	if (!(x == x)) return 0;
	if (double(x) <= low) return To(low);
	if (double(x) >= high) return high >= 0x1p63 ? To(~To(0) & (To(-1) < To(0) ? To(0x7fffffffffffffffll) : ~To(0))) : To(high);
	return To(x);
}
}  // namespace emu
#define EMU_CONVERT(To, name, low, high)                                                                   \
	inline To __float2##name##_rn(float x) { return emu::clamped<To>(rintf(x), low, high); }               \
	inline To __float2##name##_rz(float x) { return emu::clamped<To>(truncf(x), low, high); }              \
	inline To __float2##name##_rd(float x) { return emu::clamped<To>(floorf(x), low, high); }              \
	inline To __float2##name##_ru(float x) { return emu::clamped<To>(ceilf(x), low, high); }               \
	inline To __double2##name##_rn(double x) { return emu::clamped<To>(rint(x), low, high); }              \
	inline To __double2##name##_rz(double x) { return emu::clamped<To>(trunc(x), low, high); }             \
	inline To __double2##name##_rd(double x) { return emu::clamped<To>(floor(x), low, high); }             \
	inline To __double2##name##_ru(double x) { return emu::clamped<To>(ceil(x), low, high); }              \
	inline float __##name##2float_rn(To x) { return float(x); }                                            \
	inline double __##name##2double_rn(To x) { return double(x); }
EMU_CONVERT(int, int, -0x1p31, 0x1p31 - 1)
EMU_CONVERT(unsigned, uint, 0, 0x1p32 - 1)
EMU_CONVERT(long long, ll, -0x1p63, 0x1p63)
EMU_CONVERT(unsigned long long, ull, 0, 0x1p64)
#undef EMU_CONVERT
inline float __double2float_rn(double x) { return float(x); }

// Functions that g++ lacks or the C library may come to have; the fast forms of the
// device are the exact ones here, so a bound proved here must leave room for them.
namespace emu {
inline double reciprocal_root(double x) { return 1 / sqrt(x); }
inline float reciprocal_root(float x) { return float(1 / sqrt(double(x))); }

// sin and cos of pi times x. The remainder is exact, so that multiples of a half are.
inline void sin_cos_pi(double x, double *s, double *c) {
	double r = remainder(x, 2);
	double q = rint(2 * r);
	double sine = sin((r - q / 2) * M_PI), cosine = cos((r - q / 2) * M_PI);
	switch (int(q) & 3) {
	case 0: *s = sine; *c = cosine; break;
	case 1: *s = cosine; *c = -sine; break;
	case 2: *s = -sine; *c = -cosine; break;
	default: *s = -cosine; *c = sine;
	}
}
inline void sin_cos_pi(float x, float *s, float *c) {
	double sine, cosine;
	sin_cos_pi(double(x), &sine, &cosine);
	*s = float(sine);
	*c = float(cosine);
}
template <class T> T sin_pi(T x) {
	T s, c;
	sin_cos_pi(x, &s, &c);
	return s;
}
template <class T> T cos_pi(T x) {
	T s, c;
	sin_cos_pi(x, &s, &c);
	return c;
}
}  // namespace emu
#define rsqrtf(x) emu::reciprocal_root(float(x))
#define rsqrt(x) emu::reciprocal_root(x)
#define sincospif(x, s, c) emu::sin_cos_pi(float(x), s, c)
#define sincospi(x, s, c) emu::sin_cos_pi(double(x), s, c)
#define sinpif(x) emu::sin_pi(float(x))
#define sinpi(x) emu::sin_pi(double(x))
#define cospif(x) emu::cos_pi(float(x))
#define cospi(x) emu::cos_pi(double(x))
#define __frsqrt_rn(x) emu::reciprocal_root(float(x))
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __sincosf(x, s, c) sincosf(x, s, c)

template <class T> inline T __ldg(const T *p) { return *p; }
