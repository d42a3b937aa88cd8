// Sums of softmax_sums of a line of numbers in one pass (Milakov & Gimelshein 2018,
// "Online normalizer calculation for softmax").
#pragma once

// SoftmaxSums of a line x: exp(x − largest)·share sums to one, and largest + log is the
// logarithm of Σ exp(x). If the line contains a NaN or +Inf, or only −Inf, then log and
// share are not finite, or give results that are not.
struct SoftmaxSums {
	float max, log_sum, inverse_sum;
};

// softmax_sums computes them for n elements, step apart. All threads of the team call
// it.
template <class Team> __device__ __forceinline__ SoftmaxSums softmax_sums(const Team &team, const float *x, int n, int step = 1) {
	float largest = -FLT_MAX;
	double sum = 0;
#pragma unroll 4
	for (int i = team.rank; i < n; i += team.size) {
		float v = x[i * step];
		if (v > largest) {
			sum *= expf(largest - v);
			largest = v;
		}
		sum += expf(v - largest);
	}
	SoftmaxSums e;
	e.max = team.max(largest);
	sum = team.sum(sum * expf(largest - e.max));
	e.log_sum = log1pf((float)(sum - 1));  // the largest element gives exactly 1
	e.inverse_sum = 1 / (float)sum;
	return e;
}
