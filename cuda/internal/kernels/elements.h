// Chains of elementwise operations: operation after operation on the same elements, so that
// they take one launch, alone or before and after a kernel that processes rows. A thread
// processes an element in all operations of a chain, so it reads what it wrote itself and
// waits for no other thread. An operation reads and writes memory as in a launch of its own:
// the results have the same bits.
#pragma once
#include "activation.h"
#include "device.h"
#include "divide.h"

enum ElementKind { element_binary, element_activation, element_activation_gradient, element_affine };

// Element is an operation.
struct Element {
	float *out;
	const float *x, *y, *z;
	int kind, code;          // code is the operator's or the activation's
	int stride_x, stride_y;  // of a binary operator: 0 for a scalar
	Divider inner, channels; // of x⊙scale + shift with one scale y and one shift z per channel; either may be null
};

constexpr int longest_chain = 4;

struct Chain {
	int count, _;
	Element of[longest_chain];
};

__device__ __forceinline__ float operate(int code, float x, float y) {
	switch (code) {
	case 0: return x + y;
	case 1: return x - y;
	case 2: return x * y;
	case 3: return x / y;
	case 4: return powf(x, y);
	case 5: return x < y;
	case 6: return x > y;
	case 7: return x <= y;
	case 8: return x >= y;
	case 9: return x == y;
	}
	return x != y;
}

// The kind and the code are the same for all threads, so the switches cause no divergence.
__device__ __forceinline__ float element(const Element &e, long long i) {
	switch (e.kind) {
	case element_binary: return operate(e.code, e.x[i * e.stride_x], e.y[i * e.stride_y]);
	case element_activation: return activate(e.code, e.x[i]);
	case element_activation_gradient: return e.y[i] * slope(e.code, e.x[i]);
	}
	int c;
	divide(e.channels, quotient(e.inner, (int)i), c);
	float v = e.x[i];
	return fmaf(v, e.y ? e.y[c] : 1.0f, e.z ? e.z[c] : 0.0f);
}

// compute computes a chain for elements i, i + step, … below n, width of them at a time so
// that as many loads are in flight.
template <int width> __device__ __forceinline__ void compute(const Chain &c, long long i, long long step, long long n) {
	if (c.count == 0) return;
	for (; i < n; i += width * step)
		for (int k = 0; k < c.count; k++) {
			const Element &e = c.of[k];
			float v[width];
#pragma unroll
			for (int j = 0; j < width; j++)
				v[j] = i + j * step < n ? element(e, i + j * step) : 0;
#pragma unroll
			for (int j = 0; j < width; j++)
				if (i + j * step < n) e.out[i + j * step] = v[j];
		}
}
