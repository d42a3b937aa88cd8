//go:build gpu

// cuBLASLt, opened at run time. Its functions and enumeration values are declared here
// from NVIDIA's documentation (cuBLAS 12 and 13, "Using the cuBLASLt API"), and were
// compared with the headers of 12.9.3 and 13.10, so that the build needs no header.

#include <stdlib.h>

#include "cublaslt.h"
#include "calls.h"
#include "library.h"

enum {
	REAL_32F = 0, // CUDA_R_32F
	DESC_TRANSA = 3,
	PREF_MAX_WORKSPACE_BYTES = 1,
	PREF_REDUCTION_SCHEME_MASK = 3,
	PREF_MIN_ALIGNMENT_A_BYTES = 5, // then B, C and D
	ALGO_SPLITK_NUM = 2,
	STATUS_ALLOC_FAILED = 3,
	STATUS_NOT_SUPPORTED = 15,
};

typedef struct {
	uint64_t data[8];
} algorithm;

typedef struct {
	algorithm algo;
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
} choice;

struct driver_blas {
	void *handle;
	uint64_t max_workspace; // bytes of a product's workspace
	int (*Create)(void **);
	int (*Destroy)(void *);
	size_t (*GetVersion)(void);
	const char *(*GetStatusName)(int);
	int (*MatmulDescCreate)(void **, int, int);
	int (*MatmulDescDestroy)(void *);
	int (*MatmulDescSetAttribute)(void *, int, const void *, size_t);
	int (*MatrixLayoutCreate)(void **, int, uint64_t, uint64_t, int64_t);
	int (*MatrixLayoutDestroy)(void *);
	int (*MatmulPreferenceCreate)(void **);
	int (*MatmulPreferenceDestroy)(void *);
	int (*MatmulPreferenceSetAttribute)(void *, int, const void *, size_t);
	int (*MatmulAlgoGetHeuristic)(void *, void *, void *, void *, void *, void *, void *, int, choice *, int *);
	int (*MatmulAlgoConfigGetAttribute)(const algorithm *, int, void *, size_t, size_t *);
	int (*Matmul)(void *, void *, const void *, const void *, void *, const void *, void *, const void *,
		const void *, void *, void *, void *, const algorithm *, void *, size_t, CUstream);
};

struct driver_product {
	const driver_blas *blas;
	void *operation, *a, *b, *c; // descriptors
	driver_product_shape shape;
	algorithm algo;
	size_t workspace;
};

driver_blas *driver_blas_open(const char *path, int *found, char *failure, size_t bytes) {
	driver_blas *blas = calloc(1, sizeof *blas);
	const driver_function functions[] = {
#define FUNCTION(name) {"cublasLt" #name, &blas->name}
		FUNCTION(Create), FUNCTION(Destroy), FUNCTION(GetVersion), FUNCTION(GetStatusName),
		FUNCTION(MatmulDescCreate), FUNCTION(MatmulDescDestroy), FUNCTION(MatmulDescSetAttribute),
		FUNCTION(MatrixLayoutCreate), FUNCTION(MatrixLayoutDestroy),
		FUNCTION(MatmulPreferenceCreate), FUNCTION(MatmulPreferenceDestroy), FUNCTION(MatmulPreferenceSetAttribute),
		FUNCTION(MatmulAlgoGetHeuristic), FUNCTION(MatmulAlgoConfigGetAttribute), FUNCTION(Matmul),
#undef FUNCTION
	};
	if (!driver_load_functions(path, functions, sizeof functions / sizeof functions[0], found, failure, bytes)) {
		free(blas);
		return NULL;
	}
	return blas;
}

int driver_blas_start(CUcontext context, driver_blas *blas, uint64_t most) {
	blas->max_workspace = most;
	return driver_set_context(context) ?: blas->Create(&blas->handle);
}

size_t driver_blas_version(const driver_blas *blas) { return blas->GetVersion(); }

const char *driver_blas_status(const driver_blas *blas, int status) { return blas->GetStatusName(status); }

void driver_blas_close(CUcontext context, driver_blas *blas) {
	if (blas->handle && cuCtxSetCurrent(context) == CUDA_SUCCESS)
		blas->Destroy(blas->handle);
	free(blas);
}

static int layout(const driver_blas *blas, void **made, uint64_t rows, uint64_t columns) {
	return blas->MatrixLayoutCreate(made, REAL_32F, rows, columns, rows);
}

static int describe(driver_product *p) {
	const driver_blas *blas = p->blas;
	const driver_product_shape *s = &p->shape;
	const int32_t a = s->transpose; // CUBLAS_OP_N is 0, CUBLAS_OP_T 1
	return blas->MatmulDescCreate(&p->operation, s->compute, REAL_32F) ?:
		blas->MatmulDescSetAttribute(p->operation, DESC_TRANSA, &a, sizeof a) ?:
		layout(blas, &p->a, a ? s->k : s->m, a ? s->m : s->k) ?:
		layout(blas, &p->b, s->k, s->n) ?:
		layout(blas, &p->c, s->m, s->n);
}

// At most 16 bytes are requested, so that the choice depends only on the shape if operands
// are aligned to 16 bytes.
static uint32_t alignment(CUdeviceptr address) {
	uint32_t most = 16;
	while (address % most)
		most /= 2;
	return most;
}

// A dot product is one sequence of additions: no scheme that splits it is allowed.
static int prefer(const driver_product *p, void *preference) {
	const driver_blas *blas = p->blas;
	const uint32_t unsplit = 0; // CUBLASLT_REDUCTION_SCHEME_NONE
	int failed = blas->MatmulPreferenceSetAttribute(preference, PREF_MAX_WORKSPACE_BYTES, &blas->max_workspace, sizeof blas->max_workspace) ?:
		blas->MatmulPreferenceSetAttribute(preference, PREF_REDUCTION_SCHEME_MASK, &unsplit, sizeof unsplit);
	const CUdeviceptr operands[] = {p->shape.a, p->shape.b, p->shape.c, p->shape.c};
	for (int i = 0; i < 4 && !failed; i++) {
		uint32_t bytes = alignment(operands[i]);
		failed = blas->MatmulPreferenceSetAttribute(preference, PREF_MIN_ALIGNMENT_A_BYTES + i, &bytes, sizeof bytes);
	}
	return failed;
}

static int choose(driver_product *p) {
	const driver_blas *blas = p->blas;
	void *preference = NULL;
	choice choices[8] = {0};
	int found = 0;
	int failed = blas->MatmulPreferenceCreate(&preference) ?:
		prefer(p, preference) ?:
		blas->MatmulAlgoGetHeuristic(blas->handle, p->operation, p->a, p->b, p->c, p->c, preference,
			sizeof choices / sizeof choices[0], choices, &found);
	if (preference)
		blas->MatmulPreferenceDestroy(preference);
	if (failed)
		return failed;
	for (int i = 0; i < found; i++) {
		int32_t split = 0;
		size_t written;
		if (choices[i].state || choices[i].workspace > blas->max_workspace ||
			blas->MatmulAlgoConfigGetAttribute(&choices[i].algo, ALGO_SPLITK_NUM, &split, sizeof split, &written) || split > 1)
			continue;
		p->algo = choices[i].algo;
		p->workspace = choices[i].workspace;
		return 0;
	}
	return STATUS_NOT_SUPPORTED;
}

int driver_blas_prepare(CUcontext context, driver_blas *blas, const driver_product_shape *shape, driver_product **product) {
	driver_product *p = calloc(1, sizeof *p);
	if (!p)
		return STATUS_ALLOC_FAILED;
	p->blas = blas;
	p->shape = *shape;
	int failed = driver_set_context(context) ?: describe(p) ?: choose(p);
	if (failed)
		driver_blas_destroy(p);
	else
		*product = p;
	return failed;
}

_Static_assert(sizeof(algorithm) == BLAS_ALGORITHM_BYTES, "an algorithm has another size");

const void *driver_blas_algorithm(const driver_product *p) { return &p->algo; }

uint64_t driver_blas_workspace(const driver_product *p) { return p->workspace; }

int driver_blas_run(CUcontext context, CUstream stream, const driver_product *p, CUdeviceptr workspace) {
	const float one = 1, zero = 0;
	void *c = (void *)p->shape.c;
	return driver_set_context(context) ?: p->blas->Matmul(p->blas->handle, p->operation, &one, (void *)p->shape.a, p->a, (void *)p->shape.b, p->b,
		&zero, c, p->c, c, p->c, &p->algo, (void *)workspace, p->workspace, driver_stream_or_capture(stream));
}

void driver_blas_destroy(driver_product *p) {
	if (p->operation)
		p->blas->MatmulDescDestroy(p->operation);
	void *layouts[] = {p->a, p->b, p->c};
	for (int i = 0; i < 3; i++)
		if (layouts[i])
			p->blas->MatrixLayoutDestroy(layouts[i]);
	free(p);
}
