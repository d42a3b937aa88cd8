//go:build gpu

// NCCL, opened at run time. Its functions and enumeration values are declared here from NVIDIA's
// documentation (NCCL 2, "API"), and were compared with the header of 2.27.5, so that the build needs no
// header. ncclUniqueId is passed by value.

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nccl.h"
#include "library.h"

enum {
	UINT8 = 1,
	INT64 = 4,
	SUM = 0,
};

typedef struct {
	char bytes[NCCL_ID_BYTES];
} unique_id;

struct driver_nccl {
	void *communicator; // NULL before driver_nccl_join
	int version;
	int (*GetVersion)(int *);
	int (*GetUniqueId)(unique_id *);
	const char *(*GetErrorString)(int);
	int (*CommInitRank)(void **, int, unique_id, int);
	int (*CommDestroy)(void *);
	int (*CommAbort)(void *);
	int (*CommGetAsyncError)(void *, int *);
	int (*AllReduce)(const void *, void *, size_t, int, int, void *, CUstream);
	int (*Broadcast)(const void *, void *, size_t, int, int, void *, CUstream);
	int (*Reduce)(const void *, void *, size_t, int, int, int, void *, CUstream);
	int (*GroupStart)(void);
	int (*GroupEnd)(void);
};

driver_nccl *driver_nccl_open(const char *path, int *found, char *failure, size_t bytes) {
	driver_nccl *nccl = calloc(1, sizeof *nccl);
	const driver_function functions[] = {
#define FUNCTION(name) {"nccl" #name, &nccl->name}
		FUNCTION(GetVersion), FUNCTION(GetUniqueId), FUNCTION(GetErrorString), FUNCTION(CommInitRank),
		FUNCTION(CommDestroy), FUNCTION(CommAbort), FUNCTION(CommGetAsyncError), FUNCTION(AllReduce), FUNCTION(Broadcast),
		FUNCTION(Reduce), FUNCTION(GroupStart), FUNCTION(GroupEnd),
#undef FUNCTION
	};
	if (!driver_load_functions(path, functions, sizeof functions / sizeof functions[0], found, failure, bytes)) {
		free(nccl);
		return NULL;
	}
	nccl->GetVersion(&nccl->version);
	return nccl;
}

int driver_nccl_version(const driver_nccl *nccl) { return nccl->version; }

const char *driver_nccl_status(const driver_nccl *nccl, int status) { return nccl->GetErrorString(status); }

int driver_nccl_make_id(const driver_nccl *nccl, char *id) {
	unique_id made;
	int failed = nccl->GetUniqueId(&made);
	memcpy(id, made.bytes, sizeof made);
	return failed;
}

int driver_nccl_join(CUcontext context, driver_nccl *nccl, const char *id, int rank, int size) {
	unique_id given;
	memcpy(given.bytes, id, sizeof given);
	return driver_set_context(context) ?: nccl->CommInitRank(&nccl->communicator, size, given, rank);
}

int driver_nccl_sum(CUcontext context, CUstream stream, const driver_nccl *nccl, CUdeviceptr values, size_t count) {
	return driver_set_context(context) ?: nccl->AllReduce((void *)values, (void *)values, count, INT64, SUM, nccl->communicator, stream);
}

int driver_nccl_broadcast(CUcontext context, CUstream stream, const driver_nccl *nccl, CUdeviceptr at, size_t bytes) {
	return driver_set_context(context) ?: nccl->Broadcast((void *)at, (void *)at, bytes, UINT8, 0, nccl->communicator, stream);
}

/* The library starts the calls of a group together. A group belongs to its thread, and ends also after a failure. */
static int group(CUcontext context, CUstream stream, const driver_nccl *nccl, const driver_nccl_part *parts, size_t n, int adds) {
	int failed = driver_set_context(context) ?: nccl->GroupStart();
	if (failed)
		return failed;
	for (const driver_nccl_part *p = parts; p < parts + n && !failed; p++) {
		void *at = (void *)p->at;
		const int owner = (int)p->owner;
		failed = adds ? nccl->Reduce(at, at, p->bytes / 8, INT64, SUM, owner, nccl->communicator, stream)
			: nccl->Broadcast(at, at, p->bytes, UINT8, owner, nccl->communicator, stream);
	}
	const int ended = nccl->GroupEnd();
	return failed ?: ended;
}

int driver_nccl_sum_parts(CUcontext context, CUstream stream, const driver_nccl *nccl, const driver_nccl_part *parts, size_t n) {
	return group(context, stream, nccl, parts, n, 1);
}

int driver_nccl_broadcast_parts(CUcontext context, CUstream stream, const driver_nccl *nccl, const driver_nccl_part *parts, size_t n) {
	return group(context, stream, nccl, parts, n, 0);
}

static int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1000 * (int64_t)t.tv_sec + t.tv_nsec / 1000000;
}

// The first queries follow each other at once, because a small sum takes microseconds.
int driver_nccl_wait(CUcontext context, CUstream stream, const driver_nccl *nccl, int64_t milliseconds) {
	int failed = driver_set_context(context);
	const int64_t began = now();
	CUresult result = CUDA_ERROR_NOT_READY;
	for (int queries = 0; !failed && result == CUDA_ERROR_NOT_READY; queries++) {
		result = cuStreamQuery(stream);
		if (result == CUDA_ERROR_NOT_READY && queries < 1000)
			continue;
		int async = 0;
		failed = nccl->CommGetAsyncError(nccl->communicator, &async) ?: async;
		if (result != CUDA_ERROR_NOT_READY || failed)
			continue;
		if (milliseconds && now() - began > milliseconds)
			return NCCL_LATE;
		usleep(50);
	}
	return failed ?: -(int)result;
}

void driver_nccl_abort(const driver_nccl *nccl) {
	if (nccl->communicator)
		nccl->CommAbort(nccl->communicator);
}

void driver_nccl_close(CUcontext context, driver_nccl *nccl) {
	if (nccl->communicator && cuCtxSetCurrent(context) == CUDA_SUCCESS)
		nccl->CommDestroy(nccl->communicator);
	free(nccl);
}
