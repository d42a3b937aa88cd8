// CUDA's integer atomics on global memory, for the types that CUDA supports. Blocks run
// on several threads of the operating system, so the operations are atomic there, too.
// There are none for floats: a sum must not depend on the order of threads.
#pragma once

namespace emu {
template <class T, class F> T atomically(T *p, F f) {
	T old = __atomic_load_n(p, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(p, &old, f(old), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
	}
	return old;
}
}  // namespace emu

#define EMU_ATOMICS(T)                                                                                        \
	inline T atomicAdd(T *p, T v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }                      \
	inline T atomicSub(T *p, T v) { return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED); }                      \
	inline T atomicAnd(T *p, T v) { return __atomic_fetch_and(p, v, __ATOMIC_RELAXED); }                      \
	inline T atomicOr(T *p, T v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); }                        \
	inline T atomicXor(T *p, T v) { return __atomic_fetch_xor(p, v, __ATOMIC_RELAXED); }                      \
	inline T atomicExch(T *p, T v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }                    \
	inline T atomicMin(T *p, T v) { return emu::atomically(p, [v](T old) { return v < old ? v : old; }); }    \
	inline T atomicMax(T *p, T v) { return emu::atomically(p, [v](T old) { return old < v ? v : old; }); }    \
	inline T atomicCAS(T *p, T expected, T v) {                                                               \
		__atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);              \
		return expected;                                                                                      \
	}
EMU_ATOMICS(int)
EMU_ATOMICS(unsigned)
EMU_ATOMICS(unsigned long long)
#undef EMU_ATOMICS
inline unsigned atomicInc(unsigned *p, unsigned limit) {
	return emu::atomically(p, [limit](unsigned old) { return old >= limit ? 0 : old + 1; });
}
