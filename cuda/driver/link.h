#ifndef DPTRAIN_DRIVER_LINK_H
#define DPTRAIN_DRIVER_LINK_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

/* A function of a library and where its address goes. */
typedef struct {
	const char *name;
	void *slot;
} driver_function;

/* driver_link opens a library and finds its functions, or puts into failure why it
   cannot; found is set where there is a library of that name. A library stays open: it
   leaves threads and exit functions behind. */
void *driver_link(const char *path, const driver_function *functions, size_t count, int *found, char *failure, size_t bytes);

#endif
