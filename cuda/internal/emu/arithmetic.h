// The arithmetic functions of CUDA that kernels use, for g++. The compiler does not
// contract operations here: a*b+c is rounded twice, fmaf once, and the _rn forms are
// plain operators.
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
EMU_BITS(__uint_as_float, unsigned, float)
EMU_BITS(__int_as_float, int, float)
EMU_BITS(__double_as_longlong, double, long long)
EMU_BITS(__longlong_as_double, long long, double)
#undef EMU_BITS

// Integers.
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
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
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }

// Minimum and maximum. For floats they ignore a NaN operand, as CUDA's do.
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
inline int __float2int_rn(float a) { return int(lrintf(a)); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return sqrt(a); }
