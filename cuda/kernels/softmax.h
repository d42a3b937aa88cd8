// The exponentials of a line of numbers, added up in one pass (Milakov & Gimelshein
// 2018, "Online normalizer calculation for softmax").
#pragma once

// Exponentials are of a line x: exp(x − top)·share adds up to one, and top + log is
// the logarithm of Σ exp(x). Where the line holds a NaN or +Inf, or nothing but
// −Inf, log and share are no numbers, or none that make one.
struct Exponentials {
	float top, log, share;
};

// exponentials are those of n elements, step apart. All threads of the team call.
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
