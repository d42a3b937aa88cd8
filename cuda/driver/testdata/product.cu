// The kernel behind the plain twin of cuBLASLt: a thread computes one number, as one
// sum in the order of k. Columns lie one after the other. It is compiled for the
// emulated device alone.
#include "device.h"

__device__ float rounded(float x, int compute) {
	return compute == 75 ? from_bf16(to_bf16(x)) : compute == 77 ? to_tf32(x) : x;
}

KERNEL twin_product(float *c, const float *a, const float *b, int m, int n, int k, long long lda, long long ldb, long long ldc,
                    int transpose_a, int transpose_b, long long stride_a, long long stride_b, long long stride_c, float beta, int compute) {
	int i = int(blockIdx.x * blockDim.x + threadIdx.x), j = int(blockIdx.y);
	if (i >= m) return;
	a += blockIdx.z * stride_a;
	b += blockIdx.z * stride_b;
	c += blockIdx.z * stride_c;
	float sum = 0;
	for (int l = 0; l < k; l++) {
		float x = transpose_a ? a[l + i * lda] : a[i + l * lda];
		float y = transpose_b ? b[j + l * ldb] : b[l + j * ldb];
		sum = fmaf(rounded(x, compute), rounded(y, compute), sum);
	}
	c[i + j * ldc] = beta == 0 ? sum : fmaf(beta, c[i + j * ldc], sum);
}
