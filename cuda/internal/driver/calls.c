//go:build gpu

#include "calls.h"

static _Thread_local CUstream replaced, capturing;

static int captures(CUstream stream) { return capturing && stream == replaced; }

CUstream driver_stream_or_capture(CUstream stream) { return captures(stream) ? capturing : stream; }

#define ENTER(context) \
	do { \
		CUresult entered = cuCtxSetCurrent(context); \
		if (entered != CUDA_SUCCESS) \
			return entered; \
	} while (0)

CUresult driver_launch(CUcontext context, CUstream stream, CUfunction function,
	unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned char *args, size_t bytes) {
	ENTER(context);
	void *packed[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, args, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
	return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, 0, driver_stream_or_capture(stream), NULL, bytes ? packed : NULL);
}

CUresult driver_copy_in(CUcontext context, CUstream stream, CUdeviceptr to, const unsigned char *from, size_t bytes, int pinned) {
	ENTER(context);
	if (captures(stream) && !pinned)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return cuMemcpyHtoDAsync(to, from, bytes, driver_stream_or_capture(stream));
}

CUresult driver_copy_out(CUcontext context, CUstream stream, unsigned char *to, CUdeviceptr from, size_t bytes, int pinned) {
	ENTER(context);
	if (captures(stream) && !pinned)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return cuMemcpyDtoHAsync(to, from, bytes, driver_stream_or_capture(stream));
}

CUresult driver_copy(CUcontext context, CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
	ENTER(context);
	return cuMemcpyDtoDAsync(to, from, bytes, driver_stream_or_capture(stream));
}

CUresult driver_zero(CUcontext context, CUstream stream, CUdeviceptr to, size_t bytes) {
	ENTER(context);
	if (to % 4 == 0 && bytes % 4 == 0)
		return cuMemsetD32Async(to, 0, bytes / 4, driver_stream_or_capture(stream));
	return cuMemsetD8Async(to, 0, bytes, driver_stream_or_capture(stream));
}

CUresult driver_synchronize(CUcontext context, CUstream stream) {
	ENTER(context);
	if (captures(stream))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return cuStreamSynchronize(stream);
}

CUresult driver_begin_capture(CUcontext context, CUstream stream, CUstream through) {
	ENTER(context);
	CUresult begun = cuStreamBeginCapture(through, CU_STREAM_CAPTURE_MODE_RELAXED);
	if (begun == CUDA_SUCCESS) {
		replaced = stream;
		capturing = through;
	}
	return begun;
}

CUresult driver_end_capture(CUstream through, CUgraph *graph) {
	replaced = capturing = NULL;
	return cuStreamEndCapture(through, graph);
}

/* Releases of CUDA map these names to different functions. Those of 11.3 are in all later
   drivers. */
CUresult capture_info(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const CUgraphNode **, size_t *) __asm__("cuStreamGetCaptureInfo_v2");
CUresult update_dependencies(CUstream, CUgraphNode *, size_t, unsigned) __asm__("cuStreamUpdateCaptureDependencies");

CUresult driver_capture_point(CUstream through, const CUgraphNode **nodes, size_t *count) {
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult asked = capturing == through ? capture_info(through, &status, NULL, NULL, nodes, count) : CUDA_ERROR_ILLEGAL_STATE;
	if (asked == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	return asked;
}

CUresult driver_set_capture_dependencies(CUstream through, CUgraphNode *nodes, size_t count) {
	if (capturing != through)
		return CUDA_ERROR_ILLEGAL_STATE;
	return update_dependencies(through, nodes, count, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
}

/* Later headers map this name to a function with one more argument. */
CUresult graph_edges(CUgraph, CUgraphNode *, CUgraphNode *, size_t *) __asm__("cuGraphGetEdges");

void driver_graph_size(CUcontext context, CUgraph graph, size_t *nodes, size_t *edges) {
	*nodes = *edges = 0;
	if (cuCtxSetCurrent(context) != CUDA_SUCCESS || cuGraphGetNodes(graph, NULL, nodes) != CUDA_SUCCESS)
		*nodes = 0;
	else if (graph_edges(graph, NULL, NULL, edges) != CUDA_SUCCESS)
		*edges = 0;
}

CUresult driver_instantiate(CUcontext context, CUgraph graph, CUgraphExec *exec) {
	ENTER(context);
	CUresult made = cuGraphInstantiateWithFlags(exec, graph, 0);
	CUresult dropped = cuGraphDestroy(graph);
	return made != CUDA_SUCCESS ? made : dropped;
}

CUresult driver_launch_graph(CUcontext context, CUstream stream, CUgraphExec exec) {
	ENTER(context);
	return cuGraphLaunch(exec, driver_stream_or_capture(stream));
}

CUresult driver_destroy_graph(CUcontext context, CUgraphExec exec) {
	ENTER(context);
	return cuGraphExecDestroy(exec);
}

CUresult driver_create_stream(CUcontext context, CUstream *created) {
	ENTER(context);
	return cuStreamCreate(created, CU_STREAM_NON_BLOCKING);
}

CUresult driver_stream_copy_in(CUcontext context, CUstream stream, CUdeviceptr to, const unsigned char *from, size_t bytes) {
	ENTER(context);
	return cuMemcpyHtoDAsync(to, from, bytes, stream);
}

CUresult driver_destroy_stream(CUcontext context, CUstream stream) {
	ENTER(context);
	return cuStreamDestroy(stream);
}

CUresult driver_create_event(CUcontext context, CUevent *event) {
	ENTER(context);
	return cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
}

CUresult driver_record_event(CUcontext context, CUevent event, CUstream stream) {
	ENTER(context);
	if (captures(stream))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return cuEventRecord(event, stream);
}

CUresult driver_wait_event(CUcontext context, CUevent event, CUstream stream) {
	ENTER(context);
	if (captures(stream))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return cuStreamWaitEvent(stream, event, 0);
}

CUresult driver_synchronize_event(CUcontext context, CUevent event) {
	ENTER(context);
	return cuEventSynchronize(event);
}

CUresult driver_destroy_event(CUcontext context, CUevent event) {
	ENTER(context);
	return cuEventDestroy(event);
}

CUresult driver_load_module(CUcontext context, const char *image, CUmodule *module, char *log, size_t bytes) {
	ENTER(context);
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)(bytes - 1)};
	return cuModuleLoadDataEx(module, image, 2, options, values);
}

CUresult driver_find_function(CUcontext context, CUmodule module, const char *name, CUfunction *function) {
	ENTER(context);
	return cuModuleGetFunction(function, module, name);
}

CUresult driver_alloc_pinned(CUcontext context, size_t bytes, void **memory, CUdeviceptr *mapped) {
	ENTER(context);
	CUresult allocated = cuMemHostAlloc(memory, bytes, CU_MEMHOSTALLOC_DEVICEMAP);
	return allocated != CUDA_SUCCESS ? allocated : cuMemHostGetDevicePointer(mapped, *memory, 0);
}
