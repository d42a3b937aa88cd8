#ifndef DPTRAIN_DRIVER_LIBRARY_H
#define DPTRAIN_DRIVER_LIBRARY_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

/* A function of a library and where its address goes. */
typedef struct {
	const char *name;
	void *slot;
} driver_function;

/* driver_load_functions opens a library and finds its functions, or puts into failure why it
   cannot; found is set where there is a library of that name. A library stays open: it
   leaves threads and exit functions behind. */
int driver_load_functions(const char *path, const driver_function *functions, size_t count, int *found, char *failure, size_t bytes);

/* What calls a library gives a status: 0, the library's own, or less than 0: minus the
   driver's. The first of a ?: b ?: c that fails is the last that is called. */

/* driver_set_context makes the context current, since Go moves goroutines between threads. */
static inline int driver_set_context(CUcontext context) { return -(int)cuCtxSetCurrent(context); }

#endif
