// Products in double by the lanes of a warp: 8×8 sums, four steps of k at a time. A
// product of two floats is exact in double. A lane passes row lane/4 of the left operand
// and column lane/4 of the right operand, both at k = lane%4. It gets the sums of row
// lane/4 and columns 2·(lane%4) and 2·(lane%4)+1. From sm_80 on this is one instruction,
// twice as fast as ordinary double arithmetic on data-centre GPUs.
#pragma once
#include "device.h"

__device__ __forceinline__ void add_products(double (&sum)[2], double left, double right) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	// Volatile: all lanes take part, so the compiler must not move it into divergent
	// code.
	asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
		: "+d"(sum[0]), "+d"(sum[1])
		: "d"(left), "d"(right));
#else
	const int lane = threadIdx.x % 32, row = lane / 4 * 4, column = lane % 4 * 8;
#pragma unroll
	for (int k = 0; k < 4; k++) {
		double a = __shfl_sync(0xffffffff, left, row + k);
		sum[0] = fma(a, __shfl_sync(0xffffffff, right, column + k), sum[0]);
		sum[1] = fma(a, __shfl_sync(0xffffffff, right, column + 4 + k), sum[1]);
	}
#endif
}
