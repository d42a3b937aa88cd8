// Losses of rows and their gradients.
//
// Reads logits or predictions, and labels or targets; backward also the gradient of each
// row's loss. Writes one loss per row; backward one gradient per element.
//
// Shape. A team of threads (team.h) processes one row and reads it once (twice for the
// gradient of the cross-entropy, the second time from the cache): 4 bytes per element
// forward and 8 backward for the cross-entropy, 8 and 12 where every element has a
// target. 2048 rows of a vocabulary of 32768, 67 M logits: 80 µs and 160 µs at 3.35
// TB/s. Small losses take no more than a launch.
#include "device.h"
#include "activation.h"
#include "divide.h"
#include "each.h"
#include "softmax.h"
#include "team.h"

// class_of is the class of a label, `ignored` for the label −1, or `invalid` if the
// label is not a class.
enum : int { ignored = -1, invalid = -2 };

__device__ __forceinline__ int class_of(float label, int classes) {
	if (label == -1)
		return ignored;
	if (!(label >= 0 && label < classes) || label != floorf(label))
		return invalid;
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
			out[team.row] = label == ignored ? 0 : NAN;
		return;
	}
	SoftmaxSums e = softmax_sums(team, x, classes);
	float at = x[label], loss = (e.max - at) + e.log_sum;
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

// For the label's own class, p − 1 is computed without cancellation.
template <class Team>
__device__ __forceinline__ void cross_entropy_gradient(const Team &team, float *out, const float *x, const float *labels, const float *gradient, int rows, int classes, float smoothing) {
	if (team.row >= rows)
		return;
	out += (long long)team.row * classes;
	x += (long long)team.row * classes;
	int label = class_of(labels[team.row], classes);
	if (label < 0) {
		for (int i = team.rank; i < classes; i += team.size)
			out[i] = label == ignored ? 0 : NAN;
		return;
	}
	SoftmaxSums e = softmax_sums(team, x, classes);
	float g = gradient[team.row], spread = smoothing / classes;
#pragma unroll 4
	for (int i = team.rank; i < classes; i += team.size) {
		float p = i == label ? expm1f(x[i] - e.max - e.log_sum) + smoothing : expf(x[i] - e.max) * e.inverse_sum;
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
	cross_entropy_gradient(Warp(), out, x, labels, gradient, rows, classes, smoothing);
}

KERNEL LAUNCH_BOUNDS(1024) cross_entropy_gradient_block(float *out, const float *x, const float *labels, const float *gradient, int rows, int classes, float smoothing) {
	SHARED(double, partial, 32);
	cross_entropy_gradient(Block<decltype(partial)>(partial), out, x, labels, gradient, rows, classes, smoothing);
}

// The losses of single elements, numbered as in internal/device/op (ElementLoss), and then as
// in cuda/internal/compile/loss.go.
enum Loss { absolute, huber, poisson, hinge, binary_entropy, squared };

// loss_of is the loss of a prediction. A NaN stays NaN.
__device__ __forceinline__ float loss_of(int loss, float x, float target, float width) {
	float d = x - target;
	switch (loss) {
	case absolute: return fabsf(d);
	case huber: return fabsf(d) <= width ? d * d / 2 : width * (fabsf(d) - width / 2);
	case poisson: return expf(x) - target * x;
	case hinge: return 1 - target * x <= 0 ? 0.0f : 1 - target * x;
	// log(1+eˣ) − x·target; max(0, x) is added to the product first, so that the small
	// loss of a confident prediction does not cancel.
	case binary_entropy: return log1pf(expf(-fabsf(x))) + (x > 0 ? x * (1 - target) : -x * target);
	}
	return d * d;
}

// derivative_of is the derivative with respect to the prediction.
__device__ __forceinline__ float derivative_of(int loss, float x, float target, float width) {
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
__device__ __forceinline__ void sum_losses(const Team &team, float *out, const float *x, const float *target, int rows, int n, int loss, float width) {
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
	sum_losses(Warp(), out, x, target, rows, n, loss, width);
}

KERNEL LAUNCH_BOUNDS(1024) losses_block(float *out, const float *x, const float *target, int rows, int n, int loss, float width) {
	SHARED(double, partial, 32);
	sum_losses(Block<decltype(partial)>(partial), out, x, target, rows, n, loss, width);
}

KERNEL losses_gradient(float *out, const float *x, const float *target, const float *gradient, int n, Divider row, int loss, float width) {
	EACH(i, n) out[i] = derivative_of(loss, x[i], target[i], width) * gradient[quotient(row, (int)i)];
}
