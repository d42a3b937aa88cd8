// SHARED arrays. In the fast build they are plain arrays in the memory of the block. In
// the checked build (-DCHECKED) an array is an object that checks every access: the
// index must be inside, and a barrier must order the access against those of other
// threads.
#pragma once
#include <stddef.h>
#include <type_traits>
#include "thread.h"
#include "vectors.h"

namespace emu {

// A declaration of a SHARED array; each block has one array of it.
struct Declaration {
	const char *name;
	Site at;
	size_t element;
	size_t count;
	bool checked;
};

// An access to an element: the numbers of barriers that the block and the warp had
// passed, a bit for an atomic operation, and the thread's number plus one. 0 is no
// access.
using Access = uint64_t;
constexpr Access atomic_bit = 1 << 11;
inline Access access(unsigned epoch, unsigned warp_epoch, unsigned thread) {
	return Access(epoch) << 32 | Access(warp_epoch & 0xfffff) << 12 | (thread + 1);
}

// The recorded accesses of one element: its last write and two reads since then, chosen
// so that a write that races with any read races with one of these two.
struct History {
	Access writer = 0;
	Access readers[2] = {0, 0};
};

// A declaration's array in the block that runs.
struct Array {
	const Declaration *declaration;
	char *data;
	History *history;  // of every element, if checked
};

// The array of the block that runs; if checked, it is poisoned at first.
Array *array_of(const Declaration &declaration);

// Record an access. They end the launch if the index is outside or the access races.
void *note_read(Array *array, long long index);
void *note_write(Array *array, long long index);
void *note_atomic(Array *array, long long index);

#ifdef CHECKED

template <class T> struct Address {
	Array *array;
	long long index;
};

// One element: reads by conversion, writes by assignment.
template <class T> struct Element {
	Array *array;
	long long index;

	operator T() const { return *static_cast<const T *>(note_read(array, index)); }
	T operator=(T v) const {
		*static_cast<T *>(note_write(array, index)) = v;
		return v;
	}
	T operator=(const Element &e) const { return *this = T(e); }
	template <class V> T operator+=(V v) const { return *this = T(T(*this) + v); }
	template <class V> T operator-=(V v) const { return *this = T(T(*this) - v); }
	template <class V> T operator*=(V v) const { return *this = T(T(*this) * v); }
	template <class V> T operator/=(V v) const { return *this = T(T(*this) / v); }
	template <class V> T operator|=(V v) const { return *this = T(T(*this) | v); }
	template <class V> T operator&=(V v) const { return *this = T(T(*this) & v); }
	template <class V> T operator^=(V v) const { return *this = T(T(*this) ^ v); }
	T operator++() const { return *this += T(1); }
	T operator--() const { return *this -= T(1); }
	T operator++(int) const {
		T old = *this;
		*this = T(old + 1);
		return old;
	}
	T operator--(int) const {
		T old = *this;
		*this = T(old - 1);
		return old;
	}
	Address<T> operator&() const { return {array, index}; }
};

// A member of an element that is a short vector; an access counts for the whole element.
template <class V, class T, size_t member> struct Member {
	Array *array;
	long long index;

	operator T() const { return static_cast<const T *>(note_read(array, index))[member]; }
	T operator=(T v) const {
		static_cast<T *>(note_write(array, index))[member] = v;
		return v;
	}
	T operator=(const Member &m) const { return *this = T(m); }
	T operator+=(T v) const { return *this = T(T(*this) + v); }
	T operator-=(T v) const { return *this = T(T(*this) - v); }
	T operator*=(T v) const { return *this = T(T(*this) * v); }
};

#define EMU_ELEMENT(V, T, members)                                                                \
	template <> struct Element<V> {                                                               \
		union {                                                                                   \
			struct {                                                                              \
				Array *array;                                                                     \
				long long index;                                                                  \
			};                                                                                    \
			members(V, T)                                                                         \
		};                                                                                        \
		Element(Array *a, long long i) : array(a), index(i) {}                                    \
		operator V() const { return *static_cast<const V *>(note_read(array, index)); }           \
		V operator=(V v) const {                                                                  \
			*static_cast<V *>(note_write(array, index)) = v;                                      \
			return v;                                                                             \
		}                                                                                         \
		V operator=(const Element &e) const { return *this = V(e); }                              \
	};
#define EMU_XY(V, T) Member<V, T, 0> x; Member<V, T, 1> y;
#define EMU_XYZW(V, T) EMU_XY(V, T) Member<V, T, 2> z; Member<V, T, 3> w;
EMU_ELEMENT(float2, float, EMU_XY)
EMU_ELEMENT(double2, double, EMU_XY)
EMU_ELEMENT(int2, int, EMU_XY)
EMU_ELEMENT(uint2, unsigned, EMU_XY)
EMU_ELEMENT(float4, float, EMU_XYZW)
EMU_ELEMENT(int4, int, EMU_XYZW)
EMU_ELEMENT(uint4, unsigned, EMU_XYZW)
#undef EMU_ELEMENT
#undef EMU_XY
#undef EMU_XYZW

template <class T> struct Shared {
	Array *array;

	Element<T> operator[](long long i) const { return {array, i}; }
};

template <class T, class F> T on_element(Address<T> p, F f) {
	T *element = static_cast<T *>(note_atomic(p.array, p.index));
	T old = *element;
	*element = f(old);
	return old;
}

#endif

// Reports load4 or store4 of an index that is not a multiple of four (or load2, store2).
[[noreturn]] void misaligned(const char *what, long long index, Site at);

}  // namespace emu

#ifdef CHECKED

#define SHARED(type, name, count)                                                                                     \
	static const emu::Declaration name##_declaration{#name, emu::Site{__FILE__, __LINE__}, sizeof(type), size_t(count), true}; \
	const emu::Shared<type> name{emu::array_of(name##_declaration)}

#define EMU_ATOMIC(name, expression)                                                          \
	template <class T> T name(emu::Address<T> p, typename std::common_type<T>::type v) {      \
		return emu::on_element(p, [v](T old) { return T(expression); });                      \
	}
EMU_ATOMIC(atomicAdd, old + v)
EMU_ATOMIC(atomicSub, old - v)
EMU_ATOMIC(atomicAnd, old &v)
EMU_ATOMIC(atomicOr, old | v)
EMU_ATOMIC(atomicXor, old ^ v)
EMU_ATOMIC(atomicExch, v)
EMU_ATOMIC(atomicMin, v < old ? v : old)
EMU_ATOMIC(atomicMax, old < v ? v : old)
#undef EMU_ATOMIC
template <class T> T atomicCAS(emu::Address<T> p, typename std::common_type<T>::type expected, typename std::common_type<T>::type v) {
	return emu::on_element(p, [expected, v](T old) { return old == expected ? v : old; });
}

#else

#define SHARED(type, name, count)                                                                                     \
	static const emu::Declaration name##_declaration{#name, emu::Site{__FILE__, __LINE__}, sizeof(type), size_t(count), false}; \
	type(&name)[count] = *reinterpret_cast<type(*)[count]>(emu::array_of(name##_declaration)->data)

#endif

template <class S> float4 load4(S &s, int i, EMU_HERE) {
	if (i % 4) emu::misaligned("load4", i, EMU_SITE);
	return make_float4(s[i], s[i + 1], s[i + 2], s[i + 3]);
}
template <class S> float2 load2(S &s, int i, EMU_HERE) {
	if (i % 2) emu::misaligned("load2", i, EMU_SITE);
	return make_float2(s[i], s[i + 1]);
}
template <class S> void store4(S &s, int i, float4 v, EMU_HERE) {
	if (i % 4) emu::misaligned("store4", i, EMU_SITE);
	s[i] = v.x, s[i + 1] = v.y, s[i + 2] = v.z, s[i + 3] = v.w;
}
template <class S> void store2(S &s, int i, float2 v, EMU_HERE) {
	if (i % 2) emu::misaligned("store2", i, EMU_SITE);
	s[i] = v.x, s[i + 1] = v.y;
}
