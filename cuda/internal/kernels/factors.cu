// Clip factors, loss totals and input copies, so that a microbatch does not wait for the
// host.
//
// clip_factors reads the squared norms of V parameters and the groups' bounds, and
// writes V factors per record and counts of records. It computes package clip's Formula
// in double precision, each operation rounded separately, and has that package's
// guarantee: for all norms, no record changes a group's sum by more than its bound.
//
// Shape. One thread per record reads V squared norms and writes V factors: 2 KiB per
// parameter for 256 records, so the time is that of a launch, some 2 µs. Counts are
// integers, whose sums do not depend on the order of atomics.
#include "device.h"
#include "each.h"
#include "reduce.h"

// Group, Formula and their fields are those of package clip, for the device.
struct Group {
	int first, count; // members of the group
	double absolute;
	double gamma; // negative: the threshold rule
};

struct Formula {
	const Group *groups;
	const int *parameters;  // of each member
	const double *weights;  // of each member
	const float *const *squared;
	float *const *factors;
	long long group_count, parameter_count;
	double inverse, margin, smallest;
};

__device__ float factor(const Formula &f, const Group &g, double upper, double bound) {
	double by_rule = g.gamma < 0 ? __ddiv_rn(bound, upper) : __ddiv_rn(bound, __dadd_rn(upper, g.gamma));
	if (g.gamma < 0 && !(by_rule < 1))
		by_rule = 1;
	double limit = __ddiv_rn(__dmul_rn(bound, f.margin), upper);
	double c = by_rule < limit ? by_rule : limit;
	if (!(c >= f.smallest))
		return 0;
	return c > 3.4028234663852886e38 ? 3.40282347e38f : (float)c;
}

// counts receives the number of records with non-finite norms, the number of unclipped
// records and, for each group, the number of records within its bound.
KERNEL LAUNCH_BOUNDS(128) clip_factors(Formula f, const int *records, const double *bounds, int capacity, int *counts) {
	int r = blockIdx.x * blockDim.x + threadIdx.x;
	bool counted = r < *records && r < capacity, has_bad_norm = false, is_unclipped = counted;
	if (counted && f.group_count > 0)
		for (int v = 0; v < f.parameter_count; v++) {
			float x = f.squared[v][r];
			if (!(x >= 0 && x <= 3.40282347e38f))
				has_bad_norm = true;
		}
	for (int g = 0; g < f.group_count; g++) {
		const Group &group = f.groups[g];
		float c = 0;
		bool within = false;
		if (counted && !has_bad_norm) {
			double sum = 0;
			for (int m = group.first; m < group.first + group.count; m++)
				sum = __dadd_rn(sum, __dmul_rn(f.weights[m], f.squared[f.parameters[m]][r]));
			double upper = __dsqrt_rn(__dmul_rn(__dadd_rn(sum, group.absolute), f.inverse));
			c = factor(f, group, upper, bounds[g]);
			within = upper <= bounds[g];
		}
		is_unclipped = is_unclipped && c >= 1;
		if (r < capacity)
			for (int m = group.first; m < group.first + group.count; m++)
				f.factors[f.parameters[m]][r] = c;
		int n = __popc(__ballot_sync(0xffffffff, within));
		if (threadIdx.x % 32 == 0 && n > 0)
			atomicAdd(&counts[2 + g], n);
	}
	if (f.group_count == 0 && r < capacity)
		for (int v = 0; v < f.parameter_count; v++)
			f.factors[v][r] = counted ? 1 : 0;
	int non_finite = __popc(__ballot_sync(0xffffffff, has_bad_norm)), unclipped = __popc(__ballot_sync(0xffffffff, is_unclipped));
	if (threadIdx.x % 32 == 0 && non_finite > 0)
		atomicAdd(&counts[0], non_finite);
	if (threadIdx.x % 32 == 0 && unclipped > 0)
		atomicAdd(&counts[1], unclipped);
}

// mean_losses adds each record's mean loss to the total; a record has `slots` examples of
// `width` losses each. One block: a microbatch has few losses.
KERNEL LAUNCH_BOUNDS(256) mean_losses(double *total, const float *losses, const float *weights, const int *records, int slots, int width) {
	SHARED(double, partial, 32);
	double sum = 0;
	int n = *records * slots * width;
	for (int i = threadIdx.x; i < n; i += blockDim.x) {
		float weight = weights ? weights[i / width] : 1.0f;
		if (weight != 0)
			sum += (double)weight * losses[i];
	}
	sum = block_sum(partial, sum);
	if (threadIdx.x == 0)
		*total += sum;
}

// load_examples copies rows of a data set on the device to the network's input buffer;
// it writes zeros after the records' examples.
KERNEL load_examples(float *out, const float *data_set, const int *rows, const int *records, int slots, int n, int width) {
	int examples = *records * slots;
	EACH(i, n) {
		int example = (int)(i / width);
		out[i] = example < examples ? data_set[(long long)rows[example] * width + i - (long long)example * width] : 0.0f;
	}
}
