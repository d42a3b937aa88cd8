// Elementwise operations.
//
// Each kernel reads its operands once and writes its result once, neighbouring threads at
// neighbouring elements, so that memory is the only limit: 12 bytes per element for two
// operands, 3.6 µs per million elements at 3.35 TB/s. A scalar operand has stride 0 and
// stays in the cache.
#include "device.h"
#include "activation.h"
#include "each.h"

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

__device__ __forceinline__ float apply(int code, float x) {
	switch (code) {
	case 0: return fabsf(x);
	case 1: return x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f;
	case 2: return ceilf(x);
	case 3: return floorf(x);
	case 4: return sinf(x);
	case 5: return cosf(x);
	case 6: return expf(x);
	case 7: return logf(x);
	case 8: return -x;
	case 9: return x * x;
	case 10: return sqrtf(x);
	case 11: return 1 / x;
	case 12: return x * x * x;
	case 13: return tanhf(x);
	case 14: return sigmoid(x);
	case 15: return log1pf(x);
	case 16: return expm1f(x);
	}
	return activate(8, x);
}

// The code is the same for all threads, so the switches cause no divergence.

KERNEL binary(float *out, const float *x, const float *y, int n, int stride_x, int stride_y, int code) {
	EACH(i, n) out[i] = operate(code, x[i * stride_x], y[i * stride_y]);
}

KERNEL unary(float *out, const float *x, int n, int code) {
	EACH(i, n) out[i] = apply(code, x[i]);
}

KERNEL activation(float *out, const float *x, int n, int act) {
	EACH(i, n) out[i] = activate(act, x[i]);
}

KERNEL activation_gradient(float *out, const float *at, const float *gradient, int n, int act) {
	EACH(i, n) out[i] = gradient[i] * slope(act, at[i]);
}

KERNEL spread(float *out, const float *x, int n, float scale) {
	EACH(i, n) out[i] = scale * x[0];
}

KERNEL replace(float *out, const float *x, int n, float from, float to) {
	EACH(i, n) out[i] = x[i] == from ? to : x[i];
}
