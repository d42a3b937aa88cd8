#ifndef DPTRAIN_DRIVER_LIBCUDA_H
#define DPTRAIN_DRIVER_LIBCUDA_H

#include <cuda.h>

/* The result of opening libcuda. */
typedef struct {
	int found;          /* the library was opened */
	int emulated;       /* it is the emulated device, under any name */
	CUresult started;   /* the result of its cuInit */
	char failure[512];  /* why it was not opened */
	char missing[64];   /* a required function that it lacks */
} driver_library;

/* driver_open opens and initializes libcuda once, and returns the result. */
const driver_library *driver_open(void) __attribute__((visibility("hidden")));

#endif
