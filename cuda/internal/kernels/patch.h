// The patches that a window covers, read in place from the images. A patch is identified
// by its corner; an element of it, a tap, has the same offset from the corner in every
// patch. Two tables, one of the corners of an image and one of taps, therefore describe
// every element of every patch, and reading one takes one test and one addition. The
// structs here mirror the Go structs of cuda/internal/compile/patch.go.
#pragma once
#include "divide.h"

// PatchOffset is the offset in bytes of a corner from the image's first cell, or of a
// tap from the corner. Every row and every column of the window has a bit: a corner has
// the bits of those inside the image, a tap the two bits of its row and column. A corner
// without bits reads zeros, and so does a tap with a bit that no corner has.
struct alignas(8) PatchOffset {
	int bytes;
	unsigned mask;
};

// Images are images that are read in patches.
struct Images {
	const float *data;
	int image_size, group_size; // elements of an image, and of a group's channels in it
};

// load_at reads the value at a byte offset from an address.
template <class T> __device__ __forceinline__ T load_at(const void *address, int bytes) {
	return *reinterpret_cast<const T *>(static_cast<const char *>(address) + bytes);
}

// load_tap reads an element of the patch whose corner is at an address.
__device__ __forceinline__ float load_tap(const float *corner, unsigned mask, int bytes, unsigned tap_mask) {
	return (mask & tap_mask) == tap_mask ? load_at<float>(corner, bytes) : 0.0f;
}
