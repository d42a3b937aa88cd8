#ifndef DPTRAIN_DRIVER_CUBLASLT_H
#define DPTRAIN_DRIVER_CUBLASLT_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

typedef struct driver_blas driver_blas;
typedef struct driver_product driver_product;

/* A product in cuBLASLt's column-major terms. */
typedef struct {
	uint64_t m, n, k;
	int transpose; /* a */
	int compute; /* a cublasComputeType_t */
	CUdeviceptr a, b, c;
} driver_product_shape;

/* Arguments as in driver_load_functions. */
driver_blas *driver_blas_open(const char *path, int *found, char *failure, size_t bytes);
int driver_blas_start(CUcontext context, driver_blas *blas, uint64_t most);
size_t driver_blas_version(const driver_blas *blas);
const char *driver_blas_status(const driver_blas *blas, int status);
void driver_blas_close(CUcontext context, driver_blas *blas);

/* driver_blas_prepare chooses the algorithm, which determines the size of the workspace. */
int driver_blas_prepare(CUcontext context, driver_blas *blas, const driver_product_shape *shape, driver_product **product);
/* The algorithm, BLAS_ALGORITHM_BYTES bytes that are valid within a version of the library. */
enum { BLAS_ALGORITHM_BYTES = 64 };
const void *driver_blas_algorithm(const driver_product *product);
uint64_t driver_blas_workspace(const driver_product *product);
int driver_blas_run(CUcontext context, CUstream stream, const driver_product *product, CUdeviceptr workspace);
void driver_blas_destroy(driver_product *product);

#endif
