// A batch is one launch that does the work of several, its parts, so that a step of many
// small parameters does not start a kernel for each. Its argument is a table of the parts'
// grids and arguments (package cuda/batch); the blocks of the first part come first. A block
// computes the same bits as in a launch of its part alone.
#pragma once
#include "device.h"

struct PartGrid {
	unsigned first;  // block of the batch
	unsigned x, y, z;
};

template <class Arguments> struct Batch {
	static constexpr int capacity = (4096 - 16) / (sizeof(PartGrid) + sizeof(Arguments));
	int parts, _[3];
	PartGrid grids[capacity];
	Arguments arguments[capacity];
};

// BatchBlock is a block's part and its place in the grid of the part.
struct BatchBlock {
	int part = 0;
	unsigned x, y, z, grid_x, grid_z;

	template <class Arguments> __device__ __forceinline__ explicit BatchBlock(const Batch<Arguments> &b) {
		for (int after = b.parts; after - part > 1;) {
			const int middle = (part + after) / 2;
			if (b.grids[middle].first <= blockIdx.x)
				part = middle;
			else
				after = middle;
		}
		const unsigned i = blockIdx.x - b.grids[part].first, grid_y = b.grids[part].y;
		grid_x = b.grids[part].x;
		grid_z = b.grids[part].z;
		x = i % grid_x;
		y = i / grid_x % grid_y;
		z = i / grid_x / grid_y;
	}
};

// EACH_OF is EACH in the grid of a part.
#define EACH_OF(block, i, n) \
	for (long long i = (block).x * (long long)blockDim.x + threadIdx.x; i < (n); i += (block).grid_x * (long long)blockDim.x)
