// The PTX instructions that NVRTC emits for cuda/internal/kernels, for g++: one function each,
// named like the instruction with _ for a dot. cuda/internal/emu/build writes the calls. The
// semantics are from NVIDIA's "PTX ISA 8.8", those of mma from its section on matrix
// fragments. Approximate instructions are more accurate here than on a GPU.
#pragma once
#include <float.h>
#include <math.h>
#include <string.h>
#include <limits>
#include "bytes.h"
#include "driver.h"
#include "fault.h"
#include "memory.h"
#include "shared.h"
#include "tensor.h"
#include "traffic.h"

namespace ptx {

// An operand. A register has a width but no type: its bits can be read as any type that
// is not wider; a narrower type reads the low bits. A literal takes the type of the
// instruction.
template <class R> struct In {
	R value;
	template <class T> operator T() const {
		static_assert(sizeof(T) <= sizeof(R), "an operand wider than its register");
		T t;
		memcpy(&t, &value, sizeof t);
		return t;
	}
};
template <class R> In<R> in(R value) { return In<R>{value}; }
struct Number {
	long long value;
	template <class T> operator T() const { return T(value); }
};
inline In<float> f32(uint32_t bits) { return In<float>{In<uint32_t>{bits}}; }
inline In<double> f64(uint64_t bits) { return In<double>{In<uint64_t>{bits}}; }
// A result that is narrower than its register is extended according to its type.
template <class R, class V> void set(R &to, V v) {
	if constexpr (sizeof(R) > sizeof(V)) to = R(v);
	else to = In<V>{v};
}

using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using b16 = uint16_t;
using b32 = uint32_t;
using b64 = uint64_t;
using pred = bool;

#define ONE(name, T, expression) \
	inline T name(T a) { return T(expression); }
#define TWO(name, T, expression) \
	inline T name(T a, T b) { return T(expression); }
#define THREE(name, T, expression) \
	inline T name(T a, T b, T c) { return T(expression); }

// Integers. Sums wrap; in C++ only unsigned sums may, so they are computed unsigned.
#define INTEGERS(T, U)                       \
	TWO(add_##T, T, U(a) + U(b))             \
	TWO(sub_##T, T, U(a) - U(b))             \
	TWO(mul_lo_##T, T, U(a) * U(b))          \
	THREE(mad_lo_##T, T, U(a) * U(b) + U(c)) \
	TWO(min_##T, T, b < a ? b : a)           \
	TWO(max_##T, T, a < b ? b : a)           \
	TWO(div_##T, T, a / b)                   \
	TWO(rem_##T, T, a % b)
INTEGERS(s32, u32)
INTEGERS(u32, u32)
INTEGERS(s64, u64)
INTEGERS(u64, u64)
ONE(neg_s32, s32, 0u - u32(a))
ONE(neg_s64, s64, 0ull - u64(a))
TWO(mul_hi_s32, s32, s64(a) * b >> 32)
TWO(mul_hi_u32, u32, u64(a) * b >> 32)
inline s64 mul_wide_s32(s32 a, s32 b) { return s64(a) * b; }
inline u64 mul_wide_u32(u32 a, u32 b) { return u64(a) * b; }
inline u32 mul_wide_u16(u16 a, u16 b) { return u32(a) * b; }
inline s64 mad_wide_s32(s32 a, s32 b, s64 c) { return s64(u64(s64(a) * b) + u64(c)); }
inline u64 mad_wide_u32(u32 a, u32 b, u64 c) { return u64(a) * b + c; }

#define BITS(T)                \
	TWO(and_##T, T, a & b)     \
	TWO(or_##T, T, a | b)      \
	TWO(xor_##T, T, a ^ b)     \
	inline T shl_##T(T a, u32 n) { return n < 8 * sizeof(T) ? T(a << n) : T(0); }
BITS(b16)
BITS(b32)
BITS(b64)
TWO(and_pred, pred, a && b)
TWO(or_pred, pred, a || b)
TWO(xor_pred, pred, a != b)
ONE(not_pred, pred, !a)
ONE(not_b32, b32, ~a)
ONE(not_b64, b64, ~a)
inline u16 shr_u16(u16 a, u32 n) { return n < 16 ? u16(a >> n) : u16(0); }
inline u32 shr_u32(u32 a, u32 n) { return n < 32 ? a >> n : 0; }
inline u64 shr_u64(u64 a, u32 n) { return n < 64 ? a >> n : 0; }
inline s32 shr_s32(s32 a, u32 n) { return a >> (n < 31 ? n : 31); }
inline s64 shr_s64(s64 a, u32 n) { return a >> (n < 63 ? n : 63); }
inline u32 popc_b32(b32 a) { return u32(__builtin_popcount(a)); }
inline b32 brev_b32(b32 a) {
	b32 reversed = 0;
	for (int i = 0; i < 32; i++) reversed |= (a >> i & 1) << (31 - i);
	return reversed;
}
inline u32 bfind_shiftamt_u32(u32 a) { return a == 0 ? ~0u : u32(__builtin_clz(a)); }
inline b32 prmt_b32(b32 low, b32 high, b32 selectors) { return __byte_perm(low, high, selectors); }
inline b32 shf_l_wrap_b32(b32 low, b32 high, u32 n) { return b32((u64(high) << 32 | low) << (n & 31) >> 32); }
template <class T> T insert(T from, T into, u32 at, u32 bits) {
	T mask = bits >= 8 * sizeof(T) ? ~T(0) : (T(1) << bits) - 1;
	if (at >= 8 * sizeof(T)) return into;
	return (into & ~(mask << at)) | (from & mask) << at;
}
inline b32 bfi_b32(b32 from, b32 into, u32 at, u32 bits) { return insert(from, into, at, bits); }
inline b64 bfi_b64(b64 from, b64 into, u32 at, u32 bits) { return insert(from, into, at, bits); }

// Floats.
#define FLOATS(T, F, fma, sqrt)             \
	TWO(add_##T, F, a + b)                  \
	TWO(sub_##T, F, a - b)                  \
	TWO(mul_##T, F, a * b)                  \
	TWO(add_rn_##T, F, a + b)               \
	TWO(sub_rn_##T, F, a - b)               \
	TWO(mul_rn_##T, F, a * b)               \
	TWO(div_rn_##T, F, a / b)               \
	THREE(fma_rn_##T, F, fma(a, b, c))      \
	ONE(rcp_rn_##T, F, 1 / a)               \
	ONE(sqrt_rn_##T, F, sqrt(a))            \
	ONE(neg_##T, F, -a)                     \
	TWO(min_##T, F, a < b || b != b ? a : b) \
	TWO(max_##T, F, a > b || b != b ? a : b)
FLOATS(f32, float, fmaf, sqrtf)
FLOATS(f64, double, fma, sqrt)
ONE(abs_f32, float, fabsf(a))
ONE(abs_f64, double, fabs(a))

// flush implements .ftz: numbers between 0 and the smallest normal number become 0.
inline float flush(float a) { return fabsf(a) < FLT_MIN ? copysignf(0, a) : a; }
inline float ex2_approx_f32(float a) { return float(exp2(double(a))); }
inline float ex2_approx_ftz_f32(float a) { return flush(ex2_approx_f32(flush(a))); }
inline float rcp_approx_ftz_f32(float a) { return flush(1 / flush(a)); }

// Directed rounding; the exact sum of the two doubles is s + rest.
inline float round_directed(double a, double b, bool down) {
	double s = a + b, part = s - a, rest = (a - (s - part)) + (b - part);
	float f = float(s);
	bool above = double(f) > s || (double(f) == s && rest < 0), below = double(f) < s || (double(f) == s && rest > 0);
	if (down && above) return nextafterf(f, -INFINITY);
	if (!down && below) return nextafterf(f, INFINITY);
	return f;
}
inline float fma_rm_f32(float a, float b, float c) { return round_directed(double(a) * b, c, true); }
inline float add_rz_f32(float a, float b) { return round_directed(a, b, double(a) + b > 0); }

// Conversions. A conversion to an integer saturates; NaN becomes 0.
template <class T> T to_integer(double a) {
	if (a != a) return 0;
	if (a <= double(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
	if (a >= double(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
	return T(a);
}
inline s64 cvt_s64_s16(s16 a) { return a; }
inline s64 cvt_s64_s32(s32 a) { return a; }
inline u64 cvt_u64_u32(u32 a) { return a; }
inline u32 cvt_u32_u16(u16 a) { return a; }
inline u32 cvt_u32_u64(u64 a) { return u32(a); }
inline u16 cvt_u16_u32(u32 a) { return u16(a); }
inline u16 cvt_u16_u64(u64 a) { return u16(a); }
inline double cvt_f64_f32(float a) { return a; }
inline float cvt_rn_f32_f64(double a) { return float(a); }
inline float cvt_rn_f32_s32(s32 a) { return float(a); }
inline float cvt_rn_f32_u32(u32 a) { return float(a); }
inline double cvt_rn_f64_s32(s32 a) { return a; }
inline double cvt_rn_f64_s64(s64 a) { return double(a); }
inline double cvt_rn_f64_u32(u32 a) { return a; }
inline double cvt_rn_f64_u64(u64 a) { return double(a); }
inline double cvt_rmi_f64_f64(double a) { return floor(a); }
inline float cvt_rmi_f32_f32(float a) { return floorf(a); }
inline float cvt_rpi_f32_f32(float a) { return ceilf(a); }
inline float cvt_rzi_f32_f32(float a) { return truncf(a); }
inline float cvt_rni_f32_f32(float a) { return nearbyintf(a); }
inline s32 cvt_rni_s32_f32(float a) { return to_integer<s32>(nearbyintf(a)); }
inline s32 cvt_rzi_s32_f32(float a) { return to_integer<s32>(a); }
inline s64 cvt_rzi_s64_f32(float a) { return to_integer<s64>(a); }
inline s64 cvt_rzi_s64_f64(double a) { return to_integer<s64>(a); }
inline u64 cvt_rzi_u64_f32(float a) { return to_integer<u64>(a); }
inline float cvt_sat_f32_f32(float a) { return a > 0 ? (a < 1 ? a : 1) : 0; }
inline b32 cvt_rna_tf32_f32(float a) {
	b32 bits = In<float>{a};
	return (bits & 0x7f800000) == 0x7f800000 ? bits : (bits + 0x1000) & 0xffffe000;
}
inline b32 bf16(float a) {
	b32 bits = In<float>{a};
	return a != a ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline b32 cvt_rn_bf16x2_f32(float high, float low) { return bf16(high) << 16 | bf16(low); }

// Comparisons. Those of the second set are true if an operand is NaN.
#define COMPARE(T, C)                                       \
	inline bool setp_eq_##T(C a, C b) { return a == b; }    \
	inline bool setp_ne_##T(C a, C b) { return a != b; }    \
	inline bool setp_lt_##T(C a, C b) { return a < b; }     \
	inline bool setp_le_##T(C a, C b) { return a <= b; }    \
	inline bool setp_gt_##T(C a, C b) { return a > b; }     \
	inline bool setp_ge_##T(C a, C b) { return a >= b; }
#define COMPARE_UNORDERED(T, F)                             \
	COMPARE(T, F)                                           \
	inline bool setp_equ_##T(F a, F b) { return !(a < b || a > b); } \
	inline bool setp_neu_##T(F a, F b) { return !(a == b); }  \
	inline bool setp_ltu_##T(F a, F b) { return !(a >= b); }  \
	inline bool setp_leu_##T(F a, F b) { return !(a > b); }   \
	inline bool setp_gtu_##T(F a, F b) { return !(a <= b); }  \
	inline bool setp_geu_##T(F a, F b) { return !(a < b); }   \
	inline bool setp_nan_##T(F a, F b) { return a != a || b != b; } \
	inline bool setp_num_##T(F a, F b) { return a == a && b == b; }
COMPARE(s16, s16)
COMPARE(u16, u16)
COMPARE(s32, s32)
COMPARE(u32, u32)
COMPARE(b32, b32)
COMPARE(s64, s64)
COMPARE(u64, u64)
COMPARE(b64, b64)
COMPARE_UNORDERED(f32, float)
COMPARE_UNORDERED(f64, double)

#define CHOOSE(T, C)                                                  \
	inline C selp_##T(C a, C b, bool first) { return first ? a : b; } \
	inline C mov_##T(C a) { return a; }
CHOOSE(b16, b16)
CHOOSE(u16, u16)
CHOOSE(b32, b32)
CHOOSE(u32, u32)
CHOOSE(s32, s32)
CHOOSE(b64, b64)
CHOOSE(u64, u64)
CHOOSE(f32, float)
CHOOSE(f64, double)
CHOOSE(pred, bool)
inline b64 mov_b64(b32 low, b32 high) { return b64(high) << 32 | low; }
template <class A, class B, class D> void mov_b64(A &low, B &high, In<D> both) {
	set(low, b32(b64(both)));
	set(high, b32(b64(both) >> 32));
}
inline u64 cvta_to_global_u64(u64 a) { return a; }

#define HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

// Memory. Addresses are host addresses; those of shared memory are offsets.
template <class T> T *at(emu::Request request, u64 address, size_t bytes, int line) {
	if (address % bytes != 0) emu::fail(emu::CUDA_ERROR_MISALIGNED_ADDRESS, "accesses %zu bytes at %s, which is not aligned", bytes, emu::describe(reinterpret_cast<void *>(address)).c_str());
	if (emu::traffic) emu::note_traffic(request, line, address, bytes);
	return reinterpret_cast<T *>(address);
}
inline void at_shared(emu::Request request, u64 address, size_t bytes, int line) {
	if (address % bytes != 0) emu::fail(emu::CUDA_ERROR_MISALIGNED_ADDRESS, "accesses %zu bytes at %llu of shared memory, which is not aligned", bytes, (unsigned long long)address);
	if (emu::traffic) emu::note_traffic(request, line, address, bytes);
}
// Shared memory is an array of words; the accesses to each word are checked.
template <class T> T load_words(emu::Array *shared, u64 address) {
	b32 words[sizeof(T) / 4];
	for (size_t i = 0; i < sizeof(T) / 4; i++) words[i] = *static_cast<const b32 *>(emu::note_read(shared, (long long)(address / 4 + i)));
	T t;
	memcpy(&t, words, sizeof t);
	return t;
}
template <class T> void store_words(emu::Array *shared, u64 address, T t) {
	b32 words[sizeof(T) / 4];
	memcpy(words, &t, sizeof t);
	for (size_t i = 0; i < sizeof(T) / 4; i++) *static_cast<b32 *>(emu::note_write(shared, (long long)(address / 4 + i))) = words[i];
}

#define ADDRESSED(space, T, C)                                                                          \
	inline C ld_##space##T(u64 address, HERE) { return *at<C>(emu::Request::load, address, sizeof(C), line); } \
	template <class R> void ld_##space##v2_##T(R &a, R &b, u64 address, HERE) {                         \
		const C *p = at<C>(emu::Request::load, address, 2 * sizeof(C), line);                           \
		set(a, p[0]), set(b, p[1]);                                                                     \
	}                                                                                                   \
	template <class R> void ld_##space##v4_##T(R &a, R &b, R &c, R &d, u64 address, HERE) {             \
		const C *p = at<C>(emu::Request::load, address, 4 * sizeof(C), line);                           \
		set(a, p[0]), set(b, p[1]), set(c, p[2]), set(d, p[3]);                                         \
	}                                                                                                   \
	inline void st_##space##T(u64 address, C a, HERE) { *at<C>(emu::Request::store, address, sizeof(C), line) = a; } \
	inline void st_##space##v2_##T(u64 address, C a, C b, HERE) {                                       \
		C *p = at<C>(emu::Request::store, address, 2 * sizeof(C), line);                                \
		p[0] = a, p[1] = b;                                                                             \
	}                                                                                                   \
	inline void st_##space##v4_##T(u64 address, C a, C b, C c, C d, HERE) {                             \
		C *p = at<C>(emu::Request::store, address, 4 * sizeof(C), line);                                \
		p[0] = a, p[1] = b, p[2] = c, p[3] = d;                                                         \
	}
#define SHARED_MEMORY(T, C)                                                                             \
	inline C ld_shared_##T(emu::Array *s, u64 address, HERE) {                                          \
		at_shared(emu::Request::load_shared, address, sizeof(C), line);                                 \
		return load_words<C>(s, address);                                                                     \
	}                                                                                                   \
	template <class R> void ld_shared_v2_##T(emu::Array *s, R &a, R &b, u64 address, HERE) {            \
		at_shared(emu::Request::load_shared, address, 2 * sizeof(C), line);                             \
		set(a, load_words<C>(s, address)), set(b, load_words<C>(s, address + sizeof(C)));                           \
	}                                                                                                   \
	template <class R> void ld_shared_v4_##T(emu::Array *s, R &a, R &b, R &c, R &d, u64 address, HERE) { \
		at_shared(emu::Request::load_shared, address, 4 * sizeof(C), line);                             \
		set(a, load_words<C>(s, address)), set(b, load_words<C>(s, address + sizeof(C)));                           \
		set(c, load_words<C>(s, address + 2 * sizeof(C))), set(d, load_words<C>(s, address + 3 * sizeof(C)));       \
	}                                                                                                   \
	inline void st_shared_##T(emu::Array *s, u64 address, C a, HERE) {                                  \
		at_shared(emu::Request::store_shared, address, sizeof(C), line);                                \
		store_words(s, address, a);                                                                            \
	}                                                                                                   \
	inline void st_shared_v2_##T(emu::Array *s, u64 address, C a, C b, HERE) {                          \
		at_shared(emu::Request::store_shared, address, 2 * sizeof(C), line);                            \
		store_words(s, address, a), store_words(s, address + sizeof(C), b);                                           \
	}                                                                                                   \
	inline void st_shared_v4_##T(emu::Array *s, u64 address, C a, C b, C c, C d, HERE) {                \
		at_shared(emu::Request::store_shared, address, 4 * sizeof(C), line);                            \
		store_words(s, address, a), store_words(s, address + sizeof(C), b);                                           \
		store_words(s, address + 2 * sizeof(C), c), store_words(s, address + 3 * sizeof(C), d);                       \
	}
#define PARAMETERS_AND_LOCALS(T, C)                                                                     \
	inline C ld_local_##T(u64 address) { return *reinterpret_cast<const C *>(address); }                \
	inline void st_local_##T(u64 address, C a) { *reinterpret_cast<C *>(address) = a; }                 \
	inline C ld_param_##T(u64 address) { return *reinterpret_cast<const C *>(address); }                \
	template <class R> void ld_param_v2_##T(R &a, R &b, u64 address) {                                  \
		set(a, ld_param_##T(address)), set(b, ld_param_##T(address + sizeof(C)));                       \
	}
#define SPACES(T, C)            \
	ADDRESSED(, T, C)           \
	ADDRESSED(global_, T, C)    \
	ADDRESSED(global_nc_, T, C) \
	PARAMETERS_AND_LOCALS(T, C) \
	SHARED_MEMORY(T, C)
SPACES(f32, float)
SPACES(f64, double)
SPACES(s32, s32)
SPACES(u32, u32)
SPACES(u64, u64)
ADDRESSED(, s16, s16)
ADDRESSED(, u16, u16)
ADDRESSED(global_, s16, s16)
ADDRESSED(global_, u16, u16)
inline u32 atom_global_add_u32(u64 address, u32 a, HERE) { return __atomic_fetch_add(at<u32>(emu::Request::store, address, 4, line), a, __ATOMIC_RELAXED); }
inline u64 atom_global_add_u64(u64 address, u64 a, HERE) { return __atomic_fetch_add(at<u64>(emu::Request::store, address, 8, line), a, __ATOMIC_RELAXED); }
inline u64 atom_add_u64(u64 address, u64 a, HERE) { return __atomic_fetch_add(at<u64>(emu::Request::store, address, 8, line), a, __ATOMIC_RELAXED); }
inline b32 atom_global_exch_b32(u64 address, b32 a, HERE) { return __atomic_exchange_n(at<b32>(emu::Request::store, address, 4, line), a, __ATOMIC_RELAXED); }
inline b64 atom_global_exch_b64(u64 address, b64 a, HERE) { return __atomic_exchange_n(at<b64>(emu::Request::store, address, 8, line), a, __ATOMIC_RELAXED); }

// Synchronization.
#define SITE (emu::Site{file, line})
inline void bar_sync(int, HERE) { emu::barrier("bar.sync", true, SITE); }
inline void membar_gl() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void bar_warp_sync(u32 lanes, HERE) { emu::sync_warp(lanes, SITE); }
inline b32 vote_sync_ballot_b32(bool yes, u32 lanes, HERE) { return emu::vote("vote.sync", lanes, yes, SITE); }

// The last operand but one of a shuffle contains a mask for the first lane of a group in
// its upper byte, and the last lane in its lower byte.
template <class R> void shuffle(R &to, bool &inside, b32 a, int source, u32 group, u32 lanes, emu::Site site) {
	int mask = int(group >> 8 & 31), last = (emu::lane() & mask) | (int(group & 31) & ~mask);
	inside = source <= last;
	set(to, emu::shuffle("shfl.sync", lanes, a, inside ? source : emu::lane(), site));
}
template <class R> void shfl_sync_idx_b32(R &to, bool &inside, b32 a, u32 source, u32 group, u32 lanes, HERE) {
	int mask = int(group >> 8 & 31);
	shuffle(to, inside, a, (emu::lane() & mask) | (int(source & 31) & ~mask), group, lanes, SITE);
}
template <class R> void shfl_sync_bfly_b32(R &to, bool &inside, b32 a, u32 xored, u32 group, u32 lanes, HERE) {
	shuffle(to, inside, a, emu::lane() ^ int(xored & 31), group, lanes, SITE);
}
template <class R> void shfl_sync_down_b32(R &to, bool &inside, b32 a, u32 by, u32 group, u32 lanes, HERE) {
	shuffle(to, inside, a, emu::lane() + int(by & 31), group, lanes, SITE);
}

// mma adds the product of the matrices A and B to the sums of a warp. A lane passes some
// elements of A and B, and has the sums of rows lane/4 and on and columns 2·(lane%4) and
// 2·(lane%4)+1.
using emu::operands;
#define MULTIPLY_FLOATS(name, halves, number)                                                                              \
	inline void mma_sync_aligned_##name(float &d0, float &d1, float &d2, float &d3, b32 a0, b32 a1, b32 a2, b32 a3, b32 b0, \
		b32 b1, float c0, float c1, float c2, float c3, HERE) {                                                            \
		float d[4] = {c0, c1, c2, c3};                                                                                     \
		emu::multiply_16x8<halves>(d, {a0, a1, a2, a3, b0, b1}, number, file, line);                                       \
		d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];                                                                        \
	}
MULTIPLY_FLOATS(m16n8k8_row_col_f32_tf32_tf32_f32, 1, emu::number_of_tf32)
MULTIPLY_FLOATS(m16n8k16_row_col_f32_bf16_bf16_f32, 2, emu::half_of)
inline void mma_sync_aligned_m8n8k4_row_col_f64_f64_f64_f64(double &d0, double &d1, double a, double b, double c0, double c1, HERE) {
	double(*all)[2] = operands<double, 2>();
	int lane = emu::lane();
	all[lane][0] = a, all[lane][1] = b;
	emu::sync_warp(0xffffffff, SITE);
	double d[2] = {c0, c1};
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 4; k++) d[i] = fma(all[lane / 4 * 4 + k][0], all[(lane % 4 * 2 + i) * 4 + k][1], d[i]);
	emu::sync_warp(0xffffffff, SITE);
	d0 = d[0], d1 = d[1];
}
#define MULTIPLY_BYTES(types, name)                                                                                        \
	inline void mma_sync_aligned_m16n8k32_row_col_s32_##name##_s32(u32 &d0, u32 &d1, u32 &d2, u32 &d3, b32 a0, b32 a1, b32 a2, \
		b32 a3, b32 b0, b32 b1, u32 c0, u32 c1, u32 c2, u32 c3, HERE) {                                                    \
		u32 d[4] = {c0, c1, c2, c3};                                                                                       \
		emu::multiply_bytes_16x8(types, d, {a0, a1, a2, a3}, {b0, b1}, file, line);                                        \
		d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];                                                                        \
	}
MULTIPLY_BYTES("s8.s8", s8_s8)
MULTIPLY_BYTES("s8.u8", s8_u8)
MULTIPLY_BYTES("u8.s8", u8_s8)
MULTIPLY_BYTES("u8.u8", u8_u8)
#undef HERE
#undef SITE

}  // namespace ptx
