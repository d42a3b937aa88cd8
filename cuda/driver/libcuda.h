#ifndef DPTRAIN_DRIVER_LIBCUDA_H
#define DPTRAIN_DRIVER_LIBCUDA_H

#include <cuda.h>

/* What came of opening libcuda. */
typedef struct {
	int found;          /* the library was opened */
	CUresult started;   /* what its cuInit said */
	char failure[512];  /* why it was not opened */
	char missing[64];   /* a function that we need and it lacks */
} driver_library;

/* driver_open opens libcuda once, starts it, and returns what came of it. */
const driver_library *driver_open(void) __attribute__((visibility("hidden")));

#endif
