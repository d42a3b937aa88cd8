#ifndef DPTRAIN_DRIVER_LIBRARY_H
#define DPTRAIN_DRIVER_LIBRARY_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

/* A function of a library and the location for its address. */
typedef struct {
	const char *name;
	void *slot;
} driver_function;

/* driver_load_functions opens a library and loads its functions, or writes the reason to
   failure; it sets found if a library of that name exists. The library is never closed: it
   starts threads and registers exit functions. */
int driver_load_functions(const char *path, const driver_function *functions, size_t count, int *found, char *failure, size_t bytes);

/* driver_load_library opens a library that another one opens by its name later, or writes the
   reason to failure. */
int driver_load_library(const char *path, char *failure, size_t bytes);

/* A function that calls a library returns 0, the library's status, or, if negative, minus
   the driver's result. In a ?: b ?: c, the first call that fails ends the chain. */

/* driver_set_context makes the context current, because Go moves goroutines between
   threads. */
static inline int driver_set_context(CUcontext context) { return -(int)cuCtxSetCurrent(context); }

#endif
