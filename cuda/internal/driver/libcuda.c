//go:build gpu

// Opens libcuda on first use and fills the slots of the trampolines. Without a driver
// every function returns "no device", and the number of devices is 0.

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcuda.h"

#define FORWARD(name) #name,
static const char *const names[] = {
#include "symbols.h"
};
#undef FORWARD

enum { COUNT = sizeof names / sizeof names[0] };

extern void *driver_slots[COUNT] __attribute__((visibility("hidden")));

// The functions that dptrain needs; gorgonia.org/cu links to the others.
static const char *const needed[] = {
	"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute",
	"cuDriverGetVersion", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuMemGetInfo_v2",
	"cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc", "cuMemHostGetDevicePointer_v2", "cuMemFreeHost", "cuModuleLoadDataEx",
	"cuModuleGetFunction", "cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
	"cuMemcpyDtoDAsync_v2", "cuMemsetD8Async", "cuMemsetD32Async", "cuStreamCreate",
	"cuStreamSynchronize", "cuStreamQuery", "cuStreamWaitEvent", "cuEventCreate", "cuEventRecord",
	"cuEventSynchronize", "cuStreamBeginCapture_v2", "cuStreamEndCapture",
	"cuStreamGetCaptureInfo_v2", "cuStreamUpdateCaptureDependencies",
	"cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphExecDestroy", "cuGraphDestroy",
};

static driver_library library;

static CUresult no_device(void) { return CUDA_ERROR_NO_DEVICE; }

static CUresult not_found(void) { return CUDA_ERROR_NOT_FOUND; }

static CUresult no_devices(int *count) {
	*count = 0;
	return CUDA_SUCCESS;
}

// Package cu calls cuInit when the process starts, and ends the process if it fails. This
// definition does nothing; the driver is initialized on first use, so that a command that
// needs no GPU does not wait for one.
__attribute__((visibility("hidden"))) CUresult CUDAAPI cuInit(unsigned int flags) {
	(void)flags;
	return CUDA_SUCCESS;
}

static void fill(void *handle) {
	for (int i = 0; i < COUNT; i++) {
		void *function = handle ? dlsym(handle, names[i]) : NULL;
		if (!handle)
			function = strcmp(names[i], "cuDeviceGetCount") ? (void *)no_device : (void *)no_devices;
		else if (!function)
			function = (void *)not_found;
		__atomic_store_n(&driver_slots[i], function, __ATOMIC_RELEASE);
	}
}

static void open_library(void) {
	const char *path = getenv("DPTRAIN_LIBCUDA");
	void *handle = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		snprintf(library.failure, sizeof library.failure, "%s", dlerror());
		fill(NULL);
		return;
	}
	library.found = 1;
	library.emulated = dlsym(handle, "dptrain_emulated_device") != NULL;
	for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
		if (!dlsym(handle, needed[i])) {
			snprintf(library.missing, sizeof library.missing, "%s", needed[i]);
			break;
		}
	}
	CUresult (*start)(unsigned int) = (CUresult(*)(unsigned int))dlsym(handle, "cuInit");
	library.started = start ? start(0) : CUDA_ERROR_NOT_FOUND;
	fill(handle);
}

const driver_library *driver_open(void) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, open_library);
	return &library;
}
