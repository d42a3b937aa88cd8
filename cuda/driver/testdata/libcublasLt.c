/* A plain twin of cuBLASLt for the emulated device: the functions and attributes that
   the driver uses, with their meaning in NVIDIA's documentation, and refusals where a
   call breaks it. Of the three ways that it offers to compute a product only the last
   is right: the first is not supported, the second splits sums. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };

typedef struct {
	int compute;
	int32_t transpose[2];
} operation;
typedef struct {
	uint64_t rows, columns;
	int64_t ld, stride;
	int32_t batch;
} layout;
typedef struct {
	uint64_t workspace;
	uint32_t reduction, alignment[4];
} preference;
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
typedef struct {
	void *kernel;
	int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
} handle;

int cublasLtCreate(void **made) {
	void *driver = dlopen(getenv("DPTRAIN_LIBCUDA"), RTLD_NOW), *module;
	if (!driver)
		return NOT_INITIALIZED;
	int (*load)(void **, const void *) = (int (*)(void **, const void *))dlsym(driver, "cuModuleLoadData");
	int (*find)(void **, void *, const char *) = (int (*)(void **, void *, const char *))dlsym(driver, "cuModuleGetFunction");
	handle *h = malloc(sizeof *h);
	*(void **)&h->launch = dlsym(driver, "cuLaunchKernel");
	if (load(&module, "twin") || find(&h->kernel, module, "twin_product")) {
		free(h);
		return NOT_INITIALIZED;
	}
	*made = h;
	return SUCCESS;
}
int cublasLtDestroy(void *h) {
	free(h);
	return SUCCESS;
}
size_t cublasLtGetVersion(void) { return 120987; }
const char *cublasLtGetStatusName(int status) {
	return status == NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED" : status == INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE" : "CUBLAS_STATUS_OTHER";
}

int cublasLtMatmulDescCreate(void **made, int compute, int scale) {
	if (scale != 0 || (compute != 68 && compute != 75 && compute != 77))
		return INVALID_VALUE;
	operation *o = calloc(1, sizeof *o);
	o->compute = compute;
	*made = o;
	return SUCCESS;
}
int cublasLtMatmulDescDestroy(void *o) {
	free(o);
	return SUCCESS;
}
int cublasLtMatmulDescSetAttribute(void *o, int attribute, const void *value, size_t bytes) {
	if (attribute < 3 || attribute > 4 || bytes != 4)
		return INVALID_VALUE;
	memcpy(&((operation *)o)->transpose[attribute - 3], value, bytes);
	return SUCCESS;
}

int cublasLtMatrixLayoutCreate(void **made, int type, uint64_t rows, uint64_t columns, int64_t ld) {
	if (type != 0 || ld < (int64_t)rows)
		return INVALID_VALUE;
	layout *l = malloc(sizeof *l);
	*l = (layout){rows, columns, ld, 0, 1};
	*made = l;
	return SUCCESS;
}
int cublasLtMatrixLayoutDestroy(void *l) {
	free(l);
	return SUCCESS;
}
int cublasLtMatrixLayoutSetAttribute(void *made, int attribute, const void *value, size_t bytes) {
	layout *l = made;
	if (attribute == 5 && bytes == 4)
		memcpy(&l->batch, value, bytes);
	else if (attribute == 6 && bytes == 8)
		memcpy(&l->stride, value, bytes);
	else
		return INVALID_VALUE;
	return SUCCESS;
}

int cublasLtMatmulPreferenceCreate(void **made) {
	preference *p = malloc(sizeof *p);
	*p = (preference){0, 7, {256, 256, 256, 256}};
	*made = p;
	return SUCCESS;
}
int cublasLtMatmulPreferenceDestroy(void *p) {
	free(p);
	return SUCCESS;
}
int cublasLtMatmulPreferenceSetAttribute(void *made, int attribute, const void *value, size_t bytes) {
	preference *p = made;
	if (attribute == 1 && bytes == 8)
		memcpy(&p->workspace, value, bytes);
	else if (attribute == 3 && bytes == 4)
		memcpy(&p->reduction, value, bytes);
	else if (attribute >= 5 && attribute <= 8 && bytes == 4)
		memcpy(&p->alignment[attribute - 5], value, bytes);
	else
		return INVALID_VALUE;
	return SUCCESS;
}

/* The words of an algorithm: which of the three, and the alignments that it needs. */
int cublasLtMatmulAlgoGetHeuristic(void *h, void *o, void *la, void *lb, void *lc, void *ld, void *pref, int most, choice *choices, int *found) {
	operation *op = o;
	layout *a = la, *b = lb, *c = lc;
	preference *p = pref;
	*found = 0;
	if (!h || lc != ld || most < 3 || p->reduction != 0 || p->workspace < 1 << 20)
		return NOT_SUPPORTED;
	uint64_t k = op->transpose[0] ? a->rows : a->columns;
	if ((op->transpose[0] ? a->columns : a->rows) != c->rows || (op->transpose[1] ? b->columns : b->rows) != k ||
		(op->transpose[1] ? b->rows : b->columns) != c->columns || a->batch != c->batch || b->batch != c->batch)
		return INVALID_VALUE;
	for (*found = 0; *found < 3; ++*found) {
		choice *each = &choices[*found];
		memset(each, 0, sizeof *each);
		each->algo.data[0] = (uint64_t)*found + 1;
		for (int i = 0; i < 4; i++)
			each->algo.data[1 + i] = p->alignment[i];
		each->state = *found == 0 ? NOT_SUPPORTED : SUCCESS;
	}
	return SUCCESS;
}
int cublasLtMatmulAlgoConfigGetAttribute(const algorithm *algo, int attribute, void *value, size_t bytes, size_t *written) {
	if (attribute != 2 || bytes != 4)
		return INVALID_VALUE;
	memcpy(value, &(int32_t){algo->data[0] == 2 ? 4 : 1}, 4);
	*written = 4;
	return SUCCESS;
}

int cublasLtMatmul(void *made, void *o, const float *alpha, void *a, void *la, void *b, void *lb, const float *beta,
	void *c, void *lc, void *d, void *ld, const algorithm *algo, void *workspace, size_t bytes, void *stream) {
	handle *h = made;
	operation *op = o;
	layout *A = la, *B = lb, *C = lc;
	void *const operands[] = {a, b, c, d};
	for (int i = 0; i < 4; i++)
		if ((uint64_t)operands[i] % algo->data[1 + i])
			return INVALID_VALUE;
	if (algo->data[0] != 3 || *alpha != 1 || c != d || lc != ld || !workspace || bytes < 1 << 20)
		return NOT_SUPPORTED;
	int m = (int)C->rows, n = (int)C->columns, k = (int)(op->transpose[0] ? A->rows : A->columns);
	long long lda = A->ld, ldb = B->ld, ldc = C->ld, sa = A->stride, sb = B->stride, sc = C->stride;
	float scale = *beta;
	void *arguments[] = {&c, &a, &b, &m, &n, &k, &lda, &ldb, &ldc, &op->transpose[0], &op->transpose[1], &sa, &sb, &sc, &scale, &op->compute};
	return h->launch(h->kernel, (unsigned)(m + 63) / 64, (unsigned)n, (unsigned)C->batch, 64, 1, 1, 0, stream, arguments, NULL)
		? EXECUTION_FAILED : SUCCESS;
}
