// Elementwise operations.
//
// Each operation reads its operands once and writes its result once, neighbouring threads at
// neighbouring elements, so that memory is the only limit: 12 bytes per element for two
// operands, 3.6 µs per million elements at 3.35 TB/s. A scalar operand has stride 0 and
// stays in the cache.
#include "device.h"
#include "each.h"
#include "elements.h"

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

// elementwise computes a chain of operations.
KERNEL elementwise(Chain c, int n) {
	compute<1>(c, blockIdx.x * (long long)blockDim.x + threadIdx.x, gridDim.x * (long long)blockDim.x, n);
}

KERNEL unary(float *out, const float *x, int n, int code) {
	EACH(i, n) out[i] = apply(code, x[i]);
}

KERNEL spread(float *out, const float *x, int n, float scale) {
	EACH(i, n) out[i] = scale * x[0];
}

KERNEL replace(float *out, const float *x, int n, float from, float to) {
	EACH(i, n) out[i] = x[i] == from ? to : x[i];
}
