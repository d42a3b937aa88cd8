// The kernels that this library was built from, by name. cuda/internal/emu/build writes for each
// source file one that includes it and registers its kernels.
#pragma once
#include <stddef.h>
#include <string.h>
#include <type_traits>
#include <utility>
#include "vectors.h"

namespace emu {

struct Parameter {
	size_t offset, size;
	bool pointer;
};

struct Kernel {
	const char *name;
	unsigned max_threads;  // LAUNCH_BOUNDS, or 1024
	void (*call)(const unsigned char *arguments);
	const Parameter *parameters;
	int parameter_count;
	size_t argument_bytes;
	Kernel *next;
};

extern Kernel *kernels;

constexpr size_t max_argument_bytes = 4096;

// Arguments have the layout of a C struct.
template <class... A> struct Layout {
	static constexpr int count = sizeof...(A);
	Parameter parameters[count + 1] = {};
	size_t bytes = 0;

	constexpr Layout() {
		int i = 0;
		(add<A>(i), ...);
	}
	template <class T> constexpr void add(int &i) {
		bytes = (bytes + alignof(T) - 1) / alignof(T) * alignof(T);
		parameters[i++] = Parameter{bytes, sizeof(T), std::is_pointer<T>::value};
		bytes += sizeof(T);
	}
};

template <auto f> struct Caller;
template <class... A, void (*f)(A...)> struct Caller<f> {
	static constexpr Layout<A...> layout{};

	template <class T> static T argument(const unsigned char *arguments, int i) {
		T value;
		memcpy(&value, arguments + layout.parameters[i].offset, sizeof value);
		return value;
	}
	template <size_t... i> static void call(const unsigned char *arguments, std::index_sequence<i...>) {
		f(argument<A>(arguments, int(i))...);
	}
	static void call(const unsigned char *arguments) { call(arguments, std::index_sequence_for<A...>()); }
};

template <auto f> struct Registration {
	Kernel kernel;
	Registration(const char *name, unsigned max_threads, unsigned = 0) {
		using C = Caller<f>;
		static_assert(C::layout.bytes <= max_argument_bytes, "a kernel takes at most 4096 bytes of arguments");
		kernel = Kernel{name, max_threads, C::call, C::layout.parameters, C::layout.count, C::layout.bytes, kernels};
		kernels = &kernel;
	}
};

}  // namespace emu
