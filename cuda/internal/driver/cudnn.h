#ifndef DPTRAIN_DRIVER_CUDNN_H
#define DPTRAIN_DRIVER_CUDNN_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

typedef struct driver_dnn driver_dnn;
typedef struct driver_convolution driver_convolution;

/* Images n×c×h×w, kernels o×(c/groups)×kernel, result n×o×high×wide. Backward, the
   result's gradient is read and the images' gradient is written. */
typedef struct {
	int backward;
	int n, c, h, w, o, groups, high, wide;
	int kernel[2], stride[2], pad[2], dilation[2]; /* vertical, horizontal */
	int tensor_cores;
	uint64_t most; /* bytes of workspace */
	CUdeviceptr in, kernels, out;
} driver_convolution_shape;

/* Arguments as in driver_load_functions. */
driver_dnn *driver_dnn_open(const char *path, int *found, char *failure, size_t bytes);
int driver_dnn_start(CUcontext context, driver_dnn *dnn);
size_t driver_dnn_version(const driver_dnn *dnn);
size_t driver_dnn_cuda(const driver_dnn *dnn);
const char *driver_dnn_status(const driver_dnn *dnn, int status);
void driver_dnn_close(CUcontext context, driver_dnn *dnn);

/* driver_dnn_prepare chooses the algorithm, which determines the size of the workspace. */
int driver_dnn_prepare(CUcontext context, driver_dnn *dnn, const driver_convolution_shape *shape, driver_convolution **convolution);
int driver_dnn_algorithm(const driver_convolution *convolution);
int driver_dnn_math(const driver_convolution *convolution);
uint64_t driver_dnn_workspace(const driver_convolution *convolution);
int driver_dnn_run(CUcontext context, CUstream stream, const driver_convolution *convolution, CUdeviceptr workspace);
void driver_dnn_destroy(driver_convolution *convolution);

#endif
