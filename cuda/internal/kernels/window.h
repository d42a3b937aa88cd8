// A window that moves over planes: its positions, and the positions from which it covers
// a cell. The struct mirrors the Go struct of cuda/internal/compile/pool.go.
#pragma once
#include "divide.h"

struct Window {
	int height, width;          // of a plane
	int out_height, out_width;  // positions of the window
	int kernel_h, kernel_w;     // cells of the window
	int stride_h, stride_w;     // between positions
	int pad_h, pad_w;           // beyond each edge
	int dilation_h, dilation_w; // between cells
	Divider by_out_width, by_out_height;  // from a position to its row, from a row of positions to its plane
	Divider by_width, by_height;          // from a cell to its row, from a row of cells to its plane
	Divider by_stride_h, by_stride_w;
	Divider by_kernel_w;                  // from a cell of the window to its row
};

// Corner is the cell under the window's first cell; it may lie beyond the edge.
struct Corner {
	int plane, y, x;
};

__device__ __forceinline__ Corner corner(const Window &w, int place) {
	int row, column;
	int plane = divide(w.by_out_height, divide(w.by_out_width, place, column), row);
	return {plane, row * w.stride_h - w.pad_h, column * w.stride_w - w.pad_w};
}

// Cover is the range of positions whose window may cover a cell: rows top to bottom and
// columns left to right, and the cell's offset from the first position's corner. With a
// dilation, only some of these positions cover the cell.
struct Cover {
	int plane, y, x;
	int top, bottom, left, right;
};

__device__ __forceinline__ Cover cover(const Window &w, int cell) {
	Cover c;
	c.plane = divide(w.by_height, divide(w.by_width, cell, c.x), c.y);
	c.y += w.pad_h;
	c.x += w.pad_w;
	int top = c.y - (w.kernel_h - 1) * w.dilation_h, left = c.x - (w.kernel_w - 1) * w.dilation_w;
	c.top = top <= 0 ? 0 : quotient(w.by_stride_h, top + w.stride_h - 1);
	c.left = left <= 0 ? 0 : quotient(w.by_stride_w, left + w.stride_w - 1);
	c.bottom = min(quotient(w.by_stride_h, c.y), w.out_height - 1);
	c.right = min(quotient(w.by_stride_w, c.x), w.out_width - 1);
	return c;
}

// window_index returns the index of the window's cell at this distance from its corner
// along one axis; -1 if there is none.
__device__ __forceinline__ int window_index(int distance, int dilation) {
	if (dilation == 1)
		return distance;
	return distance % dilation ? -1 : distance / dilation;
}
