#ifndef DPTRAIN_DRIVER_NCCL_H
#define DPTRAIN_DRIVER_NCCL_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

enum { NCCL_ID_BYTES = 128 };

typedef struct driver_nccl driver_nccl;

/* Arguments as in driver_load_functions. */
driver_nccl *driver_nccl_open(const char *path, int *found, char *failure, size_t bytes);
int driver_nccl_version(const driver_nccl *nccl);
const char *driver_nccl_status(const driver_nccl *nccl, int status);

/* A process makes an id, and all ranks join with it: driver_nccl_join returns when all have. */
int driver_nccl_make_id(const driver_nccl *nccl, char *id);
int driver_nccl_join(CUcontext context, driver_nccl *nccl, const char *id, int rank, int size);

/* Memory of the device whose contents belong to one rank. */
typedef struct {
	CUdeviceptr at;
	uint64_t bytes;
	int64_t owner;
} driver_nccl_part;

/* All run in the order of the stream. driver_nccl_sum and driver_nccl_broadcast, from rank 0, concern all ranks.
   driver_nccl_sum_parts gives each rank the sums of its parts, and leaves the others' parts undefined;
   driver_nccl_broadcast_parts gives all ranks the parts of each. driver_nccl_wait waits for the stream, and returns an
   error of another rank where the library sees one, or NCCL_LATE after a time; 0: it waits without limit. */
enum { NCCL_LATE = 1 << 20 };
int driver_nccl_sum(CUcontext context, CUstream stream, const driver_nccl *nccl, CUdeviceptr values, size_t count);
int driver_nccl_broadcast(CUcontext context, CUstream stream, const driver_nccl *nccl, CUdeviceptr at, size_t bytes);
int driver_nccl_sum_parts(CUcontext context, CUstream stream, const driver_nccl *nccl, const driver_nccl_part *parts, size_t n);
int driver_nccl_broadcast_parts(CUcontext context, CUstream stream, const driver_nccl *nccl, const driver_nccl_part *parts, size_t n);
int driver_nccl_wait(CUcontext context, CUstream stream, const driver_nccl *nccl, int64_t milliseconds);

/* Ends what this rank has queued; another thread may wait for it. */
void driver_nccl_abort(const driver_nccl *nccl);
void driver_nccl_close(CUcontext context, driver_nccl *nccl);

#endif
