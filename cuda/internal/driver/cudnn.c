//go:build gpu

// cuDNN, opened at run time: the functions that versions 8.9 and 9 both have. They and
// the enumeration values are declared here from NVIDIA's documentation, and were compared
// with the headers of 8.9.7 and 9.28.0, so that the build needs no header.

#include <stdlib.h>

#include "calls.h"
#include "cudnn.h"
#include "library.h"

enum {
	DATA_FLOAT = 0,
	TENSOR_NCHW = 0,
	CROSS_CORRELATION = 1,
	TENSOR_OP_MATH = 1,
	ALLOW_CONVERSION = 2, // of operands to half precision
	FMA_MATH = 3,
	DETERMINISTIC = 1,
	FORWARD_IMPLICIT_GEMM = 0,
	FORWARD_IMPLICIT_PRECOMP_GEMM = 1,
	FORWARD_GEMM = 2,
	BACKWARD_DATA_1 = 1,
	NO_ALGORITHM = 1 << 30, // not a status of cuDNN
};

typedef struct {
	int algo, status;
	float time;
	size_t memory;
	int determinism, math;
	int reserved[3];
} choice;

struct driver_dnn {
	void *handle;
	int (*Create)(void **);
	int (*Destroy)(void *);
	size_t (*GetVersion)(void);
	size_t (*GetCudartVersion)(void);
	const char *(*GetErrorString)(int);
	int (*SetStream)(void *, CUstream);
	int (*CreateTensorDescriptor)(void **);
	int (*SetTensor4dDescriptor)(void *, int, int, int, int, int, int);
	int (*DestroyTensorDescriptor)(void *);
	int (*CreateFilterDescriptor)(void **);
	int (*SetFilter4dDescriptor)(void *, int, int, int, int, int, int);
	int (*DestroyFilterDescriptor)(void *);
	int (*CreateConvolutionDescriptor)(void **);
	int (*SetConvolution2dDescriptor)(void *, int, int, int, int, int, int, int, int);
	int (*SetConvolutionGroupCount)(void *, int);
	int (*SetConvolutionMathType)(void *, int);
	int (*DestroyConvolutionDescriptor)(void *);
	int (*GetConvolutionForwardAlgorithm_v7)(void *, void *, void *, void *, void *, int, int *, choice *);
	int (*GetConvolutionBackwardDataAlgorithm_v7)(void *, void *, void *, void *, void *, int, int *, choice *);
	int (*GetConvolutionForwardWorkspaceSize)(void *, void *, void *, void *, void *, int, size_t *);
	int (*GetConvolutionBackwardDataWorkspaceSize)(void *, void *, void *, void *, void *, int, size_t *);
	int (*ConvolutionForward)(void *, const void *, void *, const void *, void *, const void *, void *, int,
		void *, size_t, const void *, void *, void *);
	int (*ConvolutionBackwardData)(void *, const void *, void *, const void *, void *, const void *, void *, int,
		void *, size_t, const void *, void *, void *);
};

struct driver_convolution {
	const driver_dnn *dnn;
	void *pictures, *kernels, *result, *window; // descriptors
	driver_convolution_shape shape;
	int algo, math;
	size_t workspace;
};

driver_dnn *driver_dnn_open(const char *path, int *found, char *failure, size_t bytes) {
	driver_dnn *dnn = calloc(1, sizeof *dnn);
	const driver_function functions[] = {
#define FUNCTION(name) {"cudnn" #name, &dnn->name}
		FUNCTION(Create), FUNCTION(Destroy), FUNCTION(GetVersion), FUNCTION(GetCudartVersion), FUNCTION(GetErrorString), FUNCTION(SetStream),
		FUNCTION(CreateTensorDescriptor), FUNCTION(SetTensor4dDescriptor), FUNCTION(DestroyTensorDescriptor),
		FUNCTION(CreateFilterDescriptor), FUNCTION(SetFilter4dDescriptor), FUNCTION(DestroyFilterDescriptor),
		FUNCTION(CreateConvolutionDescriptor), FUNCTION(SetConvolution2dDescriptor), FUNCTION(SetConvolutionGroupCount),
		FUNCTION(SetConvolutionMathType), FUNCTION(DestroyConvolutionDescriptor),
		FUNCTION(GetConvolutionForwardAlgorithm_v7), FUNCTION(GetConvolutionBackwardDataAlgorithm_v7),
		FUNCTION(GetConvolutionForwardWorkspaceSize), FUNCTION(GetConvolutionBackwardDataWorkspaceSize),
		FUNCTION(ConvolutionForward), FUNCTION(ConvolutionBackwardData),
#undef FUNCTION
	};
	if (!driver_load_functions(path, functions, sizeof functions / sizeof functions[0], found, failure, bytes)) {
		free(dnn);
		return NULL;
	}
	return dnn;
}

int driver_dnn_start(CUcontext context, driver_dnn *dnn) {
	return driver_set_context(context) ?: dnn->Create(&dnn->handle);
}

size_t driver_dnn_version(const driver_dnn *dnn) { return dnn->GetVersion(); }

size_t driver_dnn_cuda(const driver_dnn *dnn) { return dnn->GetCudartVersion(); }

const char *driver_dnn_status(const driver_dnn *dnn, int status) {
	return status == NO_ALGORITHM ? "no deterministic algorithm" : dnn->GetErrorString(status);
}

void driver_dnn_close(CUcontext context, driver_dnn *dnn) {
	if (dnn->handle && cuCtxSetCurrent(context) == CUDA_SUCCESS)
		dnn->Destroy(dnn->handle);
	free(dnn);
}

static int describe(driver_convolution *v) {
	const driver_dnn *dnn = v->dnn;
	const driver_convolution_shape *s = &v->shape;
	return dnn->CreateTensorDescriptor(&v->pictures) ?:
		dnn->SetTensor4dDescriptor(v->pictures, TENSOR_NCHW, DATA_FLOAT, s->n, s->c, s->h, s->w) ?:
		dnn->CreateTensorDescriptor(&v->result) ?:
		dnn->SetTensor4dDescriptor(v->result, TENSOR_NCHW, DATA_FLOAT, s->n, s->o, s->high, s->wide) ?:
		dnn->CreateFilterDescriptor(&v->kernels) ?:
		dnn->SetFilter4dDescriptor(v->kernels, DATA_FLOAT, TENSOR_NCHW, s->o, s->c / s->groups, s->kernel[0], s->kernel[1]) ?:
		dnn->CreateConvolutionDescriptor(&v->window) ?:
		dnn->SetConvolution2dDescriptor(v->window, s->pad[0], s->pad[1], s->stride[0], s->stride[1],
			s->dilation[0], s->dilation[1], CROSS_CORRELATION, DATA_FLOAT) ?:
		dnn->SetConvolutionGroupCount(v->window, s->groups) ?:
		dnn->SetConvolutionMathType(v->window, s->tensor_cores ? TENSOR_OP_MATH : FMA_MATH);
}

// Only algorithms that cuDNN documents as deterministic, and of these only those that sum
// the products: transforms (FFT, Winograd) round differently.
static int allowed(const driver_convolution *v, const choice *c) {
	if (c->status || c->determinism != DETERMINISTIC || c->math == ALLOW_CONVERSION)
		return 0;
	if (v->shape.backward)
		return c->algo == BACKWARD_DATA_1;
	return c->algo == FORWARD_IMPLICIT_GEMM || c->algo == FORWARD_IMPLICIT_PRECOMP_GEMM || c->algo == FORWARD_GEMM;
}

static int workspace(driver_convolution *v, int algo, size_t *bytes) {
	const driver_dnn *dnn = v->dnn;
	if (v->shape.backward)
		return dnn->GetConvolutionBackwardDataWorkspaceSize(dnn->handle, v->kernels, v->result, v->window, v->pictures, algo, bytes);
	return dnn->GetConvolutionForwardWorkspaceSize(dnn->handle, v->pictures, v->kernels, v->window, v->result, algo, bytes);
}

// The fastest allowed algorithm by cuDNN's prediction; it runs none of them.
static int choose(driver_convolution *v) {
	const driver_dnn *dnn = v->dnn;
	enum { MOST = 8 }; // cuDNN has no more algorithms
	choice choices[MOST];
	int found = 0, failed;
	if (v->shape.backward)
		failed = dnn->GetConvolutionBackwardDataAlgorithm_v7(dnn->handle, v->kernels, v->result, v->window, v->pictures, MOST, &found, choices);
	else
		failed = dnn->GetConvolutionForwardAlgorithm_v7(dnn->handle, v->pictures, v->kernels, v->window, v->result, MOST, &found, choices);
	if (failed)
		return failed;
	for (int i = 0; i < found; i++) {
		if (!allowed(v, &choices[i]))
			continue;
		// The prediction is for this math type. Without tensor cores no other is allowed.
		if (v->shape.tensor_cores && dnn->SetConvolutionMathType(v->window, choices[i].math))
			continue;
		size_t bytes;
		if (workspace(v, choices[i].algo, &bytes) || bytes > v->shape.most)
			continue;
		v->algo = choices[i].algo;
		v->math = choices[i].math;
		v->workspace = bytes;
		return 0;
	}
	return NO_ALGORITHM;
}

int driver_dnn_prepare(CUcontext context, driver_dnn *dnn, const driver_convolution_shape *shape, driver_convolution **convolution) {
	driver_convolution *v = calloc(1, sizeof *v);
	if (!v)
		return -(int)CUDA_ERROR_OUT_OF_MEMORY;
	v->dnn = dnn;
	v->shape = *shape;
	int failed = driver_set_context(context) ?: describe(v) ?: choose(v);
	if (failed)
		driver_dnn_destroy(v);
	else
		*convolution = v;
	return failed;
}

int driver_dnn_algorithm(const driver_convolution *v) { return v->algo; }

int driver_dnn_math(const driver_convolution *v) { return v->math; }

uint64_t driver_dnn_workspace(const driver_convolution *v) { return v->workspace; }

int driver_dnn_run(CUcontext context, CUstream stream, const driver_convolution *v, CUdeviceptr workspace) {
	const driver_dnn *dnn = v->dnn;
	const driver_convolution_shape *s = &v->shape;
	int failed = driver_set_context(context) ?: dnn->SetStream(dnn->handle, driver_stream_or_capture(stream));
	if (failed)
		return failed;
	const float one = 1, zero = 0;
	const void *in = (const void *)s->in, *kernels = (const void *)s->kernels;
	void *out = (void *)s->out, *space = v->workspace ? (void *)workspace : NULL;
	if (s->backward)
		return dnn->ConvolutionBackwardData(dnn->handle, &one, v->kernels, kernels, v->result, in, v->window, v->algo,
			space, v->workspace, &zero, v->pictures, out);
	return dnn->ConvolutionForward(dnn->handle, &one, v->pictures, in, v->kernels, kernels, v->window, v->algo,
		space, v->workspace, &zero, v->result, out);
}

void driver_dnn_destroy(driver_convolution *v) {
	if (v->pictures)
		v->dnn->DestroyTensorDescriptor(v->pictures);
	if (v->result)
		v->dnn->DestroyTensorDescriptor(v->result);
	if (v->kernels)
		v->dnn->DestroyFilterDescriptor(v->kernels);
	if (v->window)
		v->dnn->DestroyConvolutionDescriptor(v->window);
	free(v);
}
