// Kernels of the test of the driver's calls.
#include "device.h"

KERNEL LAUNCH_BOUNDS(256) add(float *y, const float *x, float by, int n) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n) y[i] = x[i] + by;
}

struct Mixed {
	char c;
	double d;
	short s;
	float4 f;
};
KERNEL mixed(double *y, char a, Mixed m, int b, long long l) {
	double all[] = {double(a), double(m.c), m.d, double(m.s), double(m.f.x), double(m.f.w), double(b), double(l)};
	y[threadIdx.x] = all[threadIdx.x];
}

KERNEL places(unsigned *y) {
	unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
	unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
	unsigned i = block * blockDim.x * blockDim.y * blockDim.z + thread;
	y[i] = i ^ (blockIdx.z << 20 | threadIdx.z << 24);
}

// The sum of a block by shuffles, of all blocks by the block that comes last.
KERNEL LAUNCH_BOUNDS(256) total(int *sum, int *partial, unsigned *arrived, int n) {
	SHARED(int, warps, 8);
	SHARED(bool, last, 1);
	int i = blockIdx.x * 256 + threadIdx.x, v = i < n ? i : 0;
	for (int offset = 16; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
	if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
	__syncthreads();
	if (threadIdx.x == 0) {
		int block = 0;
		for (int w = 0; w < 8; w++) block += warps[w];
		partial[blockIdx.x] = block;
		__threadfence();
		last[0] = atomicAdd(arrived, 1u) == gridDim.x - 1;
	}
	__syncthreads();
	if (last[0] && threadIdx.x == 0) {
		int all = 0;
		for (unsigned b = 0; b < gridDim.x; b++) all += partial[b];
		*sum = all;
	}
}

// What each intrinsic gives lane i.
KERNEL LAUNCH_BOUNDS(32) lanes(unsigned *y) {
	unsigned i = threadIdx.x;
	y += 16 * i;
	y[0] = __shfl_sync(0xffffffff, i, 5);
	y[1] = __shfl_sync(0xffffffff, i, 3, 8);
	y[2] = __shfl_up_sync(0xffffffff, i, 3);
	y[3] = __shfl_up_sync(0xffffffff, i, 3, 8);
	y[4] = __shfl_down_sync(0xffffffff, i, 3);
	y[5] = __shfl_down_sync(0xffffffff, i, 3, 8);
	y[6] = __shfl_xor_sync(0xffffffff, i, 9);
	y[7] = __ballot_sync(0xffffffff, i % 3 == 0);
	y[8] = __any_sync(0xffffffff, i == 31);
	y[9] = __all_sync(0xffffffff, i < 31);
	y[10] = __syncthreads_count(i < 7);
	y[11] = __syncthreads_or(i == 40);
	y[12] = __syncthreads_and(i < 32);
	y[13] = unsigned(__shfl_xor_sync(0xffffffff, double(i) + 0.5, 1) * 2);
	// The halves of a warp may go their own ways.
	y[14] = i < 16 ? __shfl_xor_sync(0x0000ffff, i, 1) : __ballot_sync(0xffff0000, i % 2);
	y[15] = __brev(i) ^ __umulhi(i << 28, 32) ^ __funnelshift_l(i, i, 31) ^ unsigned(__clz(int(i)) + __ffs(int(i)));
}
