#ifndef DPTRAIN_DRIVER_CALLS_H
#define DPTRAIN_DRIVER_CALLS_H

#include <cuda.h>
#include <stddef.h>

/* The calls of a step. Each makes its context current first, since Go moves
   goroutines between threads, and sends its work to the stream; on a thread that
   records, to the stream that is being captured in its place. A graph outlives
   the call that records it, so what it copies must be page-locked memory. */

CUstream driver_target(CUstream stream);
CUresult driver_launch(CUcontext context, CUstream stream, CUfunction function,
	unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned char *args, size_t bytes);
CUresult driver_copy_in(CUcontext context, CUstream stream, CUdeviceptr to, const unsigned char *from, size_t bytes, int pinned);
CUresult driver_copy_out(CUcontext context, CUstream stream, unsigned char *to, CUdeviceptr from, size_t bytes, int pinned);
CUresult driver_copy(CUcontext context, CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult driver_zero(CUcontext context, CUstream stream, CUdeviceptr to, size_t bytes);
CUresult driver_wait(CUcontext context, CUstream stream);

/* From driver_record to driver_recorded, what this thread sends to stream is
   captured through the stream through instead of running. */
CUresult driver_record(CUcontext context, CUstream stream, CUstream through);
CUresult driver_recorded(CUstream through, CUgraph *graph);

/* What is recorded next runs after these nodes of the recording, and no others. The
   driver's list of them is good until its next call. */
CUresult driver_reached(CUstream through, const CUgraphNode **nodes, size_t *count);
CUresult driver_behind(CUstream through, CUgraphNode *nodes, size_t count);

CUresult driver_instantiate(CUcontext context, CUgraph graph, CUgraphExec *exec);
CUresult driver_run(CUcontext context, CUstream stream, CUgraphExec exec);
CUresult driver_drop(CUcontext context, CUgraphExec exec);

/* A lane is a stream beside; what is sent to it is never recorded, and events mark
   and wait for what runs, not for what is recorded. */
CUresult driver_lane(CUcontext context, CUstream *lane);
CUresult driver_lane_copy_in(CUcontext context, CUstream lane, CUdeviceptr to, const unsigned char *from, size_t bytes);
CUresult driver_drop_lane(CUcontext context, CUstream lane);
CUresult driver_event(CUcontext context, CUevent *event);
CUresult driver_mark(CUcontext context, CUevent event, CUstream stream);
CUresult driver_follow(CUcontext context, CUevent event, CUstream stream);
CUresult driver_reach(CUcontext context, CUevent event);
CUresult driver_drop_event(CUcontext context, CUevent event);

CUresult driver_pin(CUcontext context, size_t bytes, void **memory);

#endif
