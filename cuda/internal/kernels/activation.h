// The activation functions and their derivatives, numbered as in internal/device/op. The
// derivative is a function of the activation's output; for GELU and SiLU it is a
// function of the input. A NaN stays NaN.
#pragma once

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

__device__ __forceinline__ float activate(int act, float x) {
	switch (act) {
	case 1: return x <= 0 ? 0.0f : x;
	case 2: return tanhf(x);
	case 3: return sigmoid(x);
	case 4: return 0.5f * x * erfcf(-x * 0.70710678118654752f);
	case 5: return x < 0 ? x * 0.01f : x;
	case 6: return x < 0 ? expm1f(x) : x;
	case 7: return x * sigmoid(x);
	case 8: return (x <= 0 ? 0.0f : x) + log1pf(expf(-fabsf(x)));
	}
	return x;
}

__device__ __forceinline__ float slope(int act, float v) {
	switch (act) {
	case 1: return v <= 0 ? 0.0f : 1.0f;
	case 2: return 1 - v * v;
	case 3: return v * (1 - v);
	case 4: return 0.5f * erfcf(-v * 0.70710678118654752f) + v * expf(-0.5f * v * v) * 0.39894228040143268f;
	case 5: return v <= 0 ? 0.01f : 1.0f;
	case 6: return v <= 0 ? v + 1 : 1.0f;
	case 7: {
		float s = sigmoid(v);
		return s * (1 + v * (1 - s));
	}
	case 8: return -expm1f(-v);
	}
	return 1;
}
