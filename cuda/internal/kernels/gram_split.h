// Inner products of Gram matrices on tensor cores, from operands that are split (split.h), and
// what bounds their errors: see gram.cu.
#pragma once
#include "gram.h"
#include "split.h"

#ifdef SPLITS_OPERANDS

// SplitSums are a warp's 32 by 32 sums, each in the place that it has in DoubleSums. After two steps of
// 16 elements of k, the sums of the tensor cores are added to the totals: few, so that the bound on
// their error is small.
struct SplitSums {
	float total[4][4][2] = {};
	TensorSum<SplitTF32> slice[2][4];
	bool half = false;

	__device__ __forceinline__ void add(const float4 (&u)[4], const float4 (&v)[4], const int (&limit)[4]) {
#pragma unroll
		for (int c = 0; c < 2; c++) {
			SplitA a[2];
#pragma unroll
			for (int i = 0; i < 2; i++) {
				const float4 &top = u[2 * i], &bottom = u[2 * i + 1];
				a[i] = split(c == 0 ? FragmentA{top.x, bottom.x, top.y, bottom.y} : FragmentA{top.z, bottom.z, top.w, bottom.w});
			}
#pragma unroll
			for (int j = 0; j < 4; j++) {
				const SplitB b = split(c == 0 ? FragmentB{v[j].x, v[j].y} : FragmentB{v[j].z, v[j].w});
#pragma unroll
				for (int i = 0; i < 2; i++)
					if (j < max(limit[2 * i], limit[2 * i + 1])) slice[i][j].add(a[i], b);
			}
		}
		if (half) finish();
		half = !half;
	}
	__device__ __forceinline__ void finish() {
#pragma unroll
		for (int i = 0; i < 2; i++)
#pragma unroll
			for (int j = 0; j < 4; j++) {
#pragma unroll
				for (int e = 0; e < 4; e++)
					total[2 * i + e / 2][j][e % 2] += slice[i][j].of(e);
				slice[i][j] = {};
			}
	}
	__device__ __forceinline__ double of(int e) const { return total[e / 8][e / 2 % 4][e % 2]; }
};

#endif

// inner_product_split computes, for the tiles of a block of the part, the gram_sums results that
// gram_norms_float needs.
template <class A, class D>
__device__ __forceinline__ void inner_product_split(const Gram<double> &g, const A &a, const D &delta, long long block, int na, int nd) {
#ifdef SPLITS_OPERANDS
	const GramTiles t = gram_tiles<SplitSums>(g, a, delta, block, na, nd);
	double sums[gram_sums] = {};
#pragma unroll
	for (int m = 0; m < 8; m++) {
		const double times = t.multiplicity(m), u = t.left[m], v = t.right[m];
		sums[0] = fma(times * u, v, sums[0]);
		sums[1] = fma(times * u, u, sums[1]);
		sums[2] = fma(times * v, v, sums[2]);
		if (t.is_diagonal(m)) sums[3] += u, sums[4] += v;
	}
	store_sums(g.partial + gram_sums * block, sums);
#else
	__trap();
#endif
}
