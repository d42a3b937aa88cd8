// Losses of rows and their gradients. A team processes one row and reads logits or
// predictions once (twice for the gradient of the cross-entropy, the second time from
// the cache): 4 bytes per element forward and 8 backward for the cross-entropy, 8 and 12
// where every element has a target. 2048 rows of a vocabulary of 32768, 67 M logits: 80
// µs and 160 µs at 3.35 TB/s. Small losses take no more than a launch.
#include "device.h"
#include "activation.h"
#include "divide.h"
#include "each.h"
#include "softmax.h"
#include "team.h"

// class_of is the class that a label names, none if the row is ignored, unknown if the
// label is not a class.
enum : int { none = -1, unknown = -2 };

__device__ __forceinline__ int class_of(float label, int classes) {
	if (label == -1)
		return none;
	if (!(label >= 0 && label < classes) || label != floorf(label))
		return unknown;
	return (int)label;
}

template <class Team>
__device__ __forceinline__ void cross_entropy(const Team &team, float *out, const float *x, const float *labels, int rows, int classes, float smoothing) {
	if (team.row >= rows)
		return;
	x += (long long)team.row * classes;
	int label = class_of(labels[team.row], classes);
	if (label < 0) {
		if (team.rank == 0)
			out[team.row] = label == none ? 0 : NAN;
		return;
	}
	Exponentials e = exponentials(team, x, classes);
	float at = x[label], loss = (e.top - at) + e.log;
	if (smoothing > 0) {
		double sum = 0;
#pragma unroll 4
		for (int i = team.rank; i < classes; i += team.size)
			sum += x[i];
		loss += smoothing * (float)(at - team.sum(sum) / classes);
	}
	if (team.rank == 0)
		out[team.row] = loss;
}

// The label's own p − 1 is computed without cancellation.
template <class Team>
__device__ __forceinline__ void cross_entropy_back(const Team &team, float *out, const float *x, const float *labels, const float *gradient, int rows, int classes, float smoothing) {
	if (team.row >= rows)
		return;
	out += (long long)team.row * classes;
	x += (long long)team.row * classes;
	int label = class_of(labels[team.row], classes);
	if (label < 0) {
		for (int i = team.rank; i < classes; i += team.size)
			out[i] = label == none ? 0 : NAN;
		return;
	}
	Exponentials e = exponentials(team, x, classes);
	float g = gradient[team.row], spread = smoothing / classes;
#pragma unroll 4
	for (int i = team.rank; i < classes; i += team.size) {
		float p = i == label ? expm1f(x[i] - e.top - e.log) + smoothing : expf(x[i] - e.top) * e.share;
		out[i] = g * (p - spread);
	}
}

KERNEL LAUNCH_BOUNDS(128) cross_entropy_warp(float *out, const float *x, const float *labels, int rows, int classes, float smoothing) {
	cross_entropy(Warp(), out, x, labels, rows, classes, smoothing);
}

KERNEL LAUNCH_BOUNDS(1024) cross_entropy_block(float *out, const float *x, const float *labels, int rows, int classes, float smoothing) {
	SHARED(double, partial, 32);
	cross_entropy(Block<decltype(partial)>(partial), out, x, labels, rows, classes, smoothing);
}

KERNEL LAUNCH_BOUNDS(128) cross_entropy_gradient_warp(float *out, const float *x, const float *labels, const float *gradient, int rows, int classes, float smoothing) {
	cross_entropy_back(Warp(), out, x, labels, gradient, rows, classes, smoothing);
}

KERNEL LAUNCH_BOUNDS(1024) cross_entropy_gradient_block(float *out, const float *x, const float *labels, const float *gradient, int rows, int classes, float smoothing) {
	SHARED(double, partial, 32);
	cross_entropy_back(Block<decltype(partial)>(partial), out, x, labels, gradient, rows, classes, smoothing);
}

// The losses of single elements, numbered as in internal/op (ElementLoss), and then as
// in cuda/loss.go.
enum Loss { absolute, huber, poisson, hinge, binary_entropy, squared };

// loss_of is the loss of a prediction. A NaN stays NaN.
__device__ __forceinline__ float loss_of(int loss, float x, float target, float width) {
	float d = x - target;
	switch (loss) {
	case absolute: return fabsf(d);
	case huber: return fabsf(d) <= width ? d * d / 2 : width * (fabsf(d) - width / 2);
	case poisson: return expf(x) - target * x;
	case hinge: return 1 - target * x <= 0 ? 0.0f : 1 - target * x;
	// log(1+eˣ) − x·target; max(0, x) is added to the product first, so that the loss of
	// a confident prediction is not lost.
	case binary_entropy: return log1pf(expf(-fabsf(x))) + (x > 0 ? x * (1 - target) : -x * target);
	}
	return d * d;
}

// slope_of is the derivative with respect to the prediction.
__device__ __forceinline__ float slope_of(int loss, float x, float target, float width) {
	float d = x - target;
	switch (loss) {
	case absolute: return d > 0 ? 1 : d < 0 ? -1 : d;
	case huber: return d > width ? width : d < -width ? -width : d;
	case poisson: return expf(x) - target;
	case hinge: {
		float rest = 1 - target * x;
		return rest <= 0 ? 0 : rest > 0 ? -target : rest;
	}
	case binary_entropy: return sigmoid(x) - target;
	}
	return 2 * d;
}

template <class Team>
__device__ __forceinline__ void summed(const Team &team, float *out, const float *x, const float *target, int rows, int n, int loss, float width) {
	if (team.row >= rows)
		return;
	x += (long long)team.row * n;
	target += (long long)team.row * n;
	double sum = 0;
#pragma unroll 4
	for (int i = team.rank; i < n; i += team.size)
		sum += loss_of(loss, x[i], target[i], width);
	sum = team.sum(sum);
	if (team.rank == 0)
		out[team.row] = (float)sum;
}

KERNEL LAUNCH_BOUNDS(128) losses_warp(float *out, const float *x, const float *target, int rows, int n, int loss, float width) {
	summed(Warp(), out, x, target, rows, n, loss, width);
}

KERNEL LAUNCH_BOUNDS(1024) losses_block(float *out, const float *x, const float *target, int rows, int n, int loss, float width) {
	SHARED(double, partial, 32);
	summed(Block<decltype(partial)>(partial), out, x, target, rows, n, loss, width);
}

KERNEL losses_gradient(float *out, const float *x, const float *target, const float *gradient, int n, Divider row, int loss, float width) {
	EACH(i, n) out[i] = slope_of(loss, x[i], target[i], width) * gradient[quotient(row, (int)i)];
}
