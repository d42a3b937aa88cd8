// The windows of images written as rows (im2col), and the adjoint. Only a user's own
// graph uses these: Conv2D reads windows in place.
//
// windows writes the rows element after element and reads each from its cell: the image
// stays in the cache. In fold_windows a thread computes a cell of the image: it gathers,
// in the order of the positions, from the rows whose window covers it, and neighbouring
// threads read other elements of the same sectors. Memory is the limit, 4 bytes per
// element of the rows: for 64 images of 64x32x32 under 3x3, 38 M elements, predicted 50
// µs each on an H100 (3.35 TB/s).
#include "device.h"
#include "each.h"
#include "window.h"

// width divides by the elements of a row, kernel by the cells of the window.
KERNEL windows(float *out, const float *x, int n, Divider width, Divider kernel, int channels, Window w) {
	EACH(i, n) {
		int k, kx, inside;
		int row = divide(width, (int)i, k);
		int channel = divide(kernel, k, inside);
		int ky = divide(w.cell, inside, kx);
		Corner c = corner(w, row);
		int y = c.y + ky * w.dilation_h, at = c.x + kx * w.dilation_w;
		bool covered = (unsigned)y < (unsigned)w.height && (unsigned)at < (unsigned)w.width;
		out[i] = covered ? x[((c.plane * channels + channel) * w.height + y) * w.width + at] : 0.0f;
	}
}

// channel divides planes into images.
KERNEL fold_windows(float *out, const float *rows, int n, Divider channel, Window w) {
	int kernel = w.kernel_h * w.kernel_w, width = channel.by * kernel;
	EACH(i, n) {
		Cover c = cover(w, (int)i);
		int plane;
		int picture = divide(channel, c.plane, plane);
		float sum = 0;
		for (int row = c.top; row <= c.bottom; row++) {
			int ky = under(c.y - row * w.stride_h, w.dilation_h);
			if (ky < 0)
				continue;
			for (int column = c.left; column <= c.right; column++) {
				int kx = under(c.x - column * w.stride_w, w.dilation_w);
				if (kx < 0)
					continue;
				int from = (picture * w.high + row) * w.wide + column;
				sum += rows[from * width + plane * kernel + ky * w.kernel_w + kx];
			}
		}
		out[i] = sum;
	}
}
