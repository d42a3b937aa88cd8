/* A driver that prints that it is opened, and otherwise does nothing: STARTED is what its
   cuInit returns, VERSION its version, and with LACKING it lacks cuGraphLaunch. */
#include <stdio.h>

__attribute__((constructor)) static void opened(void) { fputs("opened\n", stderr); }

int cuInit(unsigned flags) { return flags ? 1 : STARTED; }

int cuDriverGetVersion(int *version) {
	*version = VERSION;
	return 0;
}

int cuGetErrorName(int code, const char **name) {
	*name = code == STARTED ? "CUDA_ERROR_STARTED" : "CUDA_ERROR_OTHER";
	return 0;
}

int cuGetErrorString(int code, const char **text) {
	*text = code == STARTED ? "it did not start" : "another error";
	return 0;
}

int cuDeviceGetCount(int *count) {
	*count = 1;
	return 0;
}

#ifndef LACKING
int cuGraphLaunch(void) { return 0; }
#endif

#define NOTHING(name) \
	int name(void) { return 0; }
NOTHING(cuDeviceGet)
NOTHING(cuDeviceGetName)
NOTHING(cuDeviceGetAttribute)
NOTHING(cuDevicePrimaryCtxRetain)
NOTHING(cuCtxSetCurrent)
NOTHING(cuMemGetInfo_v2)
NOTHING(cuMemAlloc_v2)
NOTHING(cuMemFree_v2)
NOTHING(cuMemHostAlloc)
NOTHING(cuMemHostGetDevicePointer_v2)
NOTHING(cuMemFreeHost)
NOTHING(cuModuleLoadDataEx)
NOTHING(cuModuleGetFunction)
NOTHING(cuLaunchKernel)
NOTHING(cuMemcpyHtoDAsync_v2)
NOTHING(cuMemcpyDtoHAsync_v2)
NOTHING(cuMemcpyDtoDAsync_v2)
NOTHING(cuMemsetD8Async)
NOTHING(cuMemsetD32Async)
NOTHING(cuStreamCreate)
NOTHING(cuStreamSynchronize)
NOTHING(cuStreamQuery)
NOTHING(cuStreamWaitEvent)
NOTHING(cuEventCreate)
NOTHING(cuEventRecord)
NOTHING(cuEventSynchronize)
NOTHING(cuStreamBeginCapture_v2)
NOTHING(cuStreamEndCapture)
NOTHING(cuStreamGetCaptureInfo_v2)
NOTHING(cuStreamUpdateCaptureDependencies)
NOTHING(cuGraphGetNodes)
NOTHING(cuGraphGetEdges)
NOTHING(cuGraphInstantiateWithFlags)
NOTHING(cuGraphExecDestroy)
NOTHING(cuGraphDestroy)
