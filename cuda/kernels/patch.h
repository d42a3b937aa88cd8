// The patches that a window sees, read where they lie in the pictures. An element of
// a patch is as far from the patch's corner in every patch, so one table of taps does
// for all of them, and reading one costs an addition and two comparisons. What is
// declared here mirrors the Go structs of cuda/patch.go.
#pragma once
#include "divide.h"

// Tap is an element of a patch: how far it lies from the corner, as elements of the
// picture and as rows and columns.
struct alignas(16) Tap {
	int cell, y, x;
};

// Planes are pictures that are read in patches, whose corners are stride cells apart.
struct Planes {
	const float *data;
	int height, width;
	int picture, group; // elements of a picture, and of a group's channels in it
	int stride_h, stride_w;
};

// Places count the patches of all pictures, row by row.
struct Places {
	Divider area, row; // from a place to its picture, from a place of a picture to its row
};

struct Patch {
	int cell, y, x;
};

__device__ __forceinline__ Patch patch_at(const Planes &p, const Places &all, int place) {
	int rest, column;
	int picture = divide(all.area, place, rest);
	int row = divide(all.row, rest, column);
	int y = row * p.stride_h, x = column * p.stride_w;
	return {picture * p.picture + y * p.width + x, y, x};
}

// blank_patch sees only zeros.
__device__ __forceinline__ Patch blank_patch() { return {0, -(1 << 30), 0}; }

__device__ __forceinline__ float element(const Planes &p, const float *data, Patch c, Tap t) {
	bool inside = (unsigned)(c.y + t.y) < (unsigned)p.height && (unsigned)(c.x + t.x) < (unsigned)p.width;
	return inside ? data[c.cell + t.cell] : 0.0f;
}
