// The patches that a window sees, read where they lie in the pictures. A patch lies
// at a corner; an element of it, a tap, is as far from the corner in every patch. So
// two tables tell what a patch sees, one of the corners of a picture and one of taps,
// and reading an element takes one test and one addition. What is declared here
// mirrors the Go structs of cuda/patch.go.
#pragma once
#include "divide.h"

// Reach is how many bytes a corner lies from the picture's first cell, or a tap from
// the corner. Every row and every column of the window has a bit: a corner has those
// that lie inside the picture, a tap the two that it is in. A corner without any sees
// zeros, and so does a tap of a bit that no corner has.
struct alignas(8) Reach {
	int bytes;
	unsigned sides;
};

// Planes are pictures that are read in patches.
struct Planes {
	const float *data;
	int picture, group; // elements of a picture, and of a group's channels in it
};

// at is what lies so many bytes from an address.
template <class T> __device__ __forceinline__ T at(const void *address, int bytes) {
	return *reinterpret_cast<const T *>(static_cast<const char *>(address) + bytes);
}

// tap_at is the element of the patch whose corner lies at an address.
__device__ __forceinline__ float tap_at(const float *corner, unsigned sides, int bytes, unsigned needs) {
	return (sides & needs) == needs ? at<float>(corner, bytes) : 0.0f;
}
