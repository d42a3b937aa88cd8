// Sums of exponentials of a line of numbers in one pass (Milakov & Gimelshein 2018,
// "Online normalizer calculation for softmax").
#pragma once

// Exponentials of a line x: exp(x − top)·share sums to one, and top + log is the
// logarithm of Σ exp(x). If the line contains a NaN or +Inf, or only −Inf, then log and
// share are not finite, or give results that are not.
struct Exponentials {
	float top, log, share;
};

// exponentials computes them for n elements, step apart. All threads of the team call
// it.
template <class Team> __device__ __forceinline__ Exponentials exponentials(const Team &team, const float *x, int n, int step = 1) {
	float top = -FLT_MAX;
	double sum = 0;
#pragma unroll 4
	for (int i = team.rank; i < n; i += team.size) {
		float v = x[i * step];
		if (v > top) {
			sum *= expf(top - v);
			top = v;
		}
		sum += expf(v - top);
	}
	Exponentials e;
	e.top = team.max(top);
	sum = team.sum(sum * expf(top - e.top));
	e.log = log1pf((float)(sum - 1));  // the largest element gives exactly 1
	e.share = 1 / (float)sum;
	return e;
}
