#ifndef DPTRAIN_DRIVER_CALLS_H
#define DPTRAIN_DRIVER_CALLS_H

#include <cuda.h>
#include <stddef.h>

/* The calls of a training step. Each makes its context current first, because Go moves
   goroutines between threads, and sends its work to the stream; on a thread that captures,
   to the capturing stream instead. A graph outlives the call that captures it, so captured
   copies must use page-locked memory. */

CUstream driver_stream_or_capture(CUstream stream);
CUresult driver_launch(CUcontext context, CUstream stream, CUfunction function,
	unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned char *args, size_t bytes);
CUresult driver_copy_in(CUcontext context, CUstream stream, CUdeviceptr to, const unsigned char *from, size_t bytes, int pinned);
CUresult driver_copy_out(CUcontext context, CUstream stream, unsigned char *to, CUdeviceptr from, size_t bytes, int pinned);
CUresult driver_copy(CUcontext context, CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult driver_zero(CUcontext context, CUstream stream, CUdeviceptr to, size_t bytes);
CUresult driver_synchronize(CUcontext context, CUstream stream);

/* Between driver_begin_capture and driver_end_capture, work that this thread sends to
   `stream` is captured through the stream `through` and does not run. */
CUresult driver_begin_capture(CUcontext context, CUstream stream, CUstream through);
CUresult driver_end_capture(CUstream through, CUgraph *graph);

/* The nodes on which work captured next depends. The driver's list of them is valid until
   its next call. */
CUresult driver_capture_point(CUstream through, const CUgraphNode **nodes, size_t *count);
CUresult driver_set_capture_dependencies(CUstream through, CUgraphNode *nodes, size_t count);

/* Counts the nodes and the dependencies of a captured graph; 0 where the driver refuses. */
void driver_graph_size(CUcontext context, CUgraph graph, size_t *nodes, size_t *edges);
CUresult driver_instantiate(CUcontext context, CUgraph graph, CUgraphExec *exec);
CUresult driver_launch_graph(CUcontext context, CUstream stream, CUgraphExec exec);
CUresult driver_destroy_graph(CUcontext context, CUgraphExec exec);

/* A second stream. Its work is never captured, and events are recorded and waited for only
   outside captures. */
CUresult driver_create_stream(CUcontext context, CUstream *created);
CUresult driver_stream_copy_in(CUcontext context, CUstream stream, CUdeviceptr to, const unsigned char *from, size_t bytes);
CUresult driver_destroy_stream(CUcontext context, CUstream stream);
CUresult driver_create_event(CUcontext context, CUevent *event);
CUresult driver_record_event(CUcontext context, CUevent event, CUstream stream);
CUresult driver_wait_event(CUcontext context, CUevent event, CUstream stream);
CUresult driver_synchronize_event(CUcontext context, CUevent event);
CUresult driver_destroy_event(CUcontext context, CUevent event);

/* Loads an image that ends with a zero byte. log receives what the driver's compiler reports. */
CUresult driver_load_module(CUcontext context, const char *image, CUmodule *module, char *log, size_t bytes);
CUresult driver_find_function(CUcontext context, CUmodule module, const char *name, CUfunction *function);

CUresult driver_alloc_pinned(CUcontext context, size_t bytes, void **memory, CUdeviceptr *mapped);

#endif
