// Pooling: a window moves over every plane of the images.
//
// max_pool reads x, and writes the result and the cells that it came from; its gradient
// reads those cells, not x. average_pool reads x and writes means. The gradients read the
// gradient of the result and write that of x.
//
// Shape. In each kernel, one thread (or one warp, for windows of many cells) computes an
// element of its result, so no two threads add to one element and sums have a fixed
// order; the gradients therefore gather from the few positions whose window covers a
// cell. Memory is the limit. For 2x2 windows with stride 2: 4 elements in and 1+1 out
// for every position, and backward 1+1 in and 4 out. Predicted on an H100 (3.35 TB/s):
// cifar-tanh-64's first pool, 2.1 M cells, 3.8 µs forward and as much backward; the
// first of mnist-cnn-256, 0.8 M cells at stride 1, 2.8 µs (its neighbours share cells in
// the cache); wrn16-4-16's last, 0.26 M cells, 0.3 µs: less than a launch.
#include "device.h"
#include "each.h"
#include "reduce.h"
#include "window.h"

// max_pool finds the first largest cell of each window; a NaN is larger than every
// number. If out is null, only the cells are written.
KERNEL max_pool(float *out, int *winner, const float *x, int n, Window w) {
	EACH(i, n) {
		Corner c = corner(w, (int)i);
		const float *plane = x + (long long)c.plane * w.height * w.width;
		int best = -1;
		float largest = 0;
		for (int ky = 0; ky < w.kernel_h; ky++) {
			int y = c.y + ky * w.dilation_h;
			if ((unsigned)y >= (unsigned)w.height)
				continue;
			for (int kx = 0; kx < w.kernel_w; kx++) {
				int at = c.x + kx * w.dilation_w;
				if ((unsigned)at >= (unsigned)w.width)
					continue;
				float v = plane[y * w.width + at];
				if (best < 0 || v > largest || (v != v && largest == largest)) {
					best = y * w.width + at;
					largest = v;
				}
			}
		}
		if (out)
			out[i] = largest;
		winner[i] = best;
	}
}

// In max_pool_gradient a cell receives the gradient of each position whose maximum it is.
KERNEL max_pool_gradient(float *out, const float *gradient, const int *winner, int n, Window w) {
	int size = w.height * w.width;
	EACH(i, n) {
		Cover c = cover(w, (int)i);
		int cell = (int)i - c.plane * size;
		int base = c.plane * w.out_height * w.out_width;
		float sum = 0;
		for (int row = c.top; row <= c.bottom; row++)
			for (int column = c.left; column <= c.right; column++) {
				int at = base + row * w.out_width + column;
				if (winner[at] == cell)
					sum += gradient[at];
			}
		out[i] = sum;
	}
}

// average adds up each window; padding counts as zeros, and `lanes` threads share a
// window.
template <int lanes> __device__ __forceinline__ void average(float *out, const float *x, int n, const Window &w) {
	int cells = w.kernel_h * w.kernel_w, lane = threadIdx.x % lanes;
	long long first = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / lanes;
	for (long long i = first; i < n; i += gridDim.x * (long long)blockDim.x / lanes) {
		Corner c = corner(w, (int)i);
		const float *plane = x + (long long)c.plane * w.height * w.width;
		float sum = 0;
		for (int k = lane; k < cells; k += lanes) {
			int kx, ky = divide(w.by_kernel_w, k, kx);
			int y = c.y + ky * w.dilation_h, at = c.x + kx * w.dilation_w;
			if ((unsigned)y < (unsigned)w.height && (unsigned)at < (unsigned)w.width)
				sum += plane[y * w.width + at];
		}
		sum = warp_sum<lanes>(sum);
		if (lane == 0)
			out[i] = sum / cells;
	}
}

KERNEL average_pool(float *out, const float *x, int n, Window w) { average<1>(out, x, n, w); }

// average_pool_wide is for windows of many cells: a warp processes one, neighbouring
// lanes at neighbouring cells.
KERNEL average_pool_wide(float *out, const float *x, int n, Window w) { average<32>(out, x, n, w); }

// In average_pool_gradient a cell receives its share of each position whose window covers
// it.
KERNEL average_pool_gradient(float *out, const float *gradient, int n, Window w) {
	float cells = w.kernel_h * w.kernel_w;
	EACH(i, n) {
		Cover c = cover(w, (int)i);
		int base = c.plane * w.out_height * w.out_width;
		float sum = 0;
		for (int row = c.top; row <= c.bottom; row++) {
			if (window_index(c.y - row * w.stride_h, w.dilation_h) < 0)
				continue;
			for (int column = c.left; column <= c.right; column++)
				if (window_index(c.x - column * w.stride_w, w.dilation_w) >= 0)
					sum += gradient[base + row * w.out_width + column];
		}
		out[i] = sum / cells;
	}
}
