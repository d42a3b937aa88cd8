// Frozen weights whose numbers have 16 bits. Products and lookups read half the bytes and widen each number when they load it.
// Every number of 16 bits is a float, so results have the bits of float weights.
#pragma once
#include "device.h"

// The formats of weights, with the numbers of Go's package half.
enum Format { floats, bfloats, binary16 };

// widen returns the number that 16 bits stand for. A binary16 is finite: its exponent, moved to that of a float, is too small
// by 127 − 15, which the factor adds, also for subnormal numbers.
__device__ __forceinline__ float widen(uint32_t bits, int format) {
	if (format == bfloats) return __int_as_float((int)(bits << 16));
	const float size = __int_as_float((int)((bits & 0x7fff) << 13)) * __int_as_float((112 + 127) << 23);
	return bits >> 15 ? -size : size;
}

// Halves is memory of numbers of 16 bits, which are read as floats.
struct Halves {
	const uint16_t *data;
	int format;

	__device__ __forceinline__ float operator[](long long i) const { return widen(data[i], format); }
};

__device__ __forceinline__ Halves halves_at(const float *data, int format) { return {reinterpret_cast<const uint16_t *>(data), format}; }

// weight returns element i of weights of a format.
__device__ __forceinline__ float weight(const float *data, long long i, int format) {
	return format == floats ? data[i] : halves_at(data, format)[i];
}
