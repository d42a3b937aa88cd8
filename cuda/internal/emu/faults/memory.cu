// Faults of memory: global, shared, and a thread's own.
#include "device.h"

template <bool mended> __device__ void read_next(float *y, const float *x, int n) {
	int i = blockIdx.x * 256 + threadIdx.x;
	y[i] = x[mended ? min(i + 1, n - 1) : i + 1];
}
KERNEL LAUNCH_BOUNDS(256) read_past_end(float *y, const float *x, int n) { read_next<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) read_past_end_mended(float *y, const float *x, int n) { read_next<true>(y, x, n); }

template <bool mended> __device__ void write_next(float *y, const float *x, int n) {
	int i = blockIdx.x * 256 + threadIdx.x;
	y[mended ? i : i + 1] = x[i];
	if (i == 0) y[0] = x[0];
}
KERNEL LAUNCH_BOUNDS(256) write_past_end(float *y, const float *x, int n) { write_next<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) write_past_end_mended(float *y, const float *x, int n) { write_next<true>(y, x, n); }

// Writes so near to the end of y that only the alignment is hurt: the test takes one
// number less than the threads.
template <bool mended> __device__ void write_all(float *y, const float *x, int n) {
	int i = blockIdx.x * 256 + threadIdx.x;
	if (!mended || i < n) y[i] = 1;
}
KERNEL LAUNCH_BOUNDS(256) write_into_slack(float *y, const float *x, int n) { write_all<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) write_into_slack_mended(float *y, const float *x, int n) { write_all<true>(y, x, n); }

template <bool mended> __device__ void write_before(float *y, const float *x, int n) {
	int i = blockIdx.x * 256 + threadIdx.x;
	y[i] = x[i];
	if (!mended && i == 0) y[i - 1] = 0;
}
KERNEL LAUNCH_BOUNDS(256) write_before_start(float *y, const float *x, int n) { write_before<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) write_before_start_mended(float *y, const float *x, int n) { write_before<true>(y, x, n); }

template <bool mended> __device__ void write_some(float *y, const float *x, int n) {
	int i = blockIdx.x * 256 + threadIdx.x;
	if (mended || i < n - 1) y[i] = x[i];
}
KERNEL LAUNCH_BOUNDS(256) unwritten_output(float *y, const float *x, int n) { write_some<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) unwritten_output_mended(float *y, const float *x, int n) { write_some<true>(y, x, n); }

template <bool mended> __device__ void read_four(float *y, const float *x, int n) {
	int i = blockIdx.x * 256 + threadIdx.x;
	const float4 four = *reinterpret_cast<const float4 *>(x + (mended ? i / 4 * 4 : min(i, n - 4)));
	y[i] = four.x + four.y + four.z + four.w;
}
KERNEL LAUNCH_BOUNDS(256) misaligned_vector(float *y, const float *x, int n) { read_four<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) misaligned_vector_mended(float *y, const float *x, int n) { read_four<true>(y, x, n); }

template <bool mended> __device__ void read_four_shared(float *y, const float *x, int n) {
	SHARED(float, tile, 260);
	int i = blockIdx.x * 256 + threadIdx.x, t = int(threadIdx.x);
	tile[t] = x[i];
	if (t < 4) tile[256 + t] = 0;
	__syncthreads();
	float4 four = load4(tile, mended ? t / 4 * 4 : t);
	y[i] = four.x + four.y + four.z + four.w;
}
KERNEL LAUNCH_BOUNDS(256) misaligned_shared(float *y, const float *x, int n) { read_four_shared<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) misaligned_shared_mended(float *y, const float *x, int n) { read_four_shared<true>(y, x, n); }

template <bool mended> __device__ void index_shared(float *y, const float *x, int n) {
	SHARED(float, tile, 256);
	SHARED(float, neighbour, 4);
	int i = blockIdx.x * 256 + threadIdx.x, t = int(threadIdx.x);
	tile[mended ? t : t + 1] = x[i];
	if (t < 4) neighbour[t] = 0;
	__syncthreads();
	y[i] = tile[t] + neighbour[0];
}
KERNEL LAUNCH_BOUNDS(256) shared_past_end(float *y, const float *x, int n) { index_shared<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) shared_past_end_mended(float *y, const float *x, int n) { index_shared<true>(y, x, n); }

// Shared memory is undefined at first: it does not keep the values of an earlier block.
template <bool mended> __device__ void count_up(float *y, const float *x, int n) {
	SHARED(float, sum, 256);
	int i = blockIdx.x * 256 + threadIdx.x;
	if (mended) sum[threadIdx.x] = 0;
	sum[threadIdx.x] += x[i];
	y[i] = sum[threadIdx.x];
}
KERNEL LAUNCH_BOUNDS(256) unwritten_shared(float *y, const float *x, int n) { count_up<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) unwritten_shared_mended(float *y, const float *x, int n) { count_up<true>(y, x, n); }

template <bool mended> __device__ void index_local(float *y, const float *x, int n) {
	float last[4] = {0, 0, 0, 0};
	int i = blockIdx.x * 256 + threadIdx.x;
	int at = int(x[i]) % (mended ? 4 : 5);
	last[at] = x[i];
	y[i] = last[0] + last[1] + last[2] + last[3];
}
KERNEL LAUNCH_BOUNDS(256) local_past_end(float *y, const float *x, int n) { index_local<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) local_past_end_mended(float *y, const float *x, int n) { index_local<true>(y, x, n); }

template <bool mended> __device__ void use_deep_stack(float *y, const float *x, int n) {
	volatile float deep[mended ? 1000 : 100000];
	int i = blockIdx.x * 256 + threadIdx.x;
	deep[0] = x[i];
	y[i] = deep[0];
}
KERNEL LAUNCH_BOUNDS(256) deep_stack(float *y, const float *x, int n) { use_deep_stack<false>(y, x, n); }
KERNEL LAUNCH_BOUNDS(256) deep_stack_mended(float *y, const float *x, int n) { use_deep_stack<true>(y, x, n); }
