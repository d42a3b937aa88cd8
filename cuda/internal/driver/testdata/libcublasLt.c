/* A stand-in of cuBLASLt for the emulated device: the functions and attributes that
   the driver uses, with their meaning in NVIDIA's documentation, and refusals where a
   call breaks it. Of the three ways that it offers to compute a product only the last
   is right: the first is not supported, the second splits sums. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACE = 1000 };
enum { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };

typedef struct {
	int compute;
	int32_t transpose; /* of A */
} operation;
typedef struct {
	uint64_t rows, columns;
	int64_t ld;
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
	int (*launch)(void *stream, void (*function)(void *), void *data);
	int (*capturing)(void *stream, int *status);
} handle;

/* What DPTRAIN_TWIN names is wrong with this library. */
static int fault(const char *name) {
	const char *planted = getenv("DPTRAIN_TWIN");
	return planted && !strcmp(planted, name);
}

int cublasLtCreate(void **made) {
	void *driver = dlopen(getenv("DPTRAIN_LIBCUDA"), RTLD_NOW);
	if (!driver || fault("no start"))
		return NOT_INITIALIZED;
	handle *h = malloc(sizeof *h);
	*(void **)&h->launch = dlsym(driver, "cuLaunchHostFunc");
	*(void **)&h->capturing = dlsym(driver, "cuStreamIsCapturing");
	*made = h;
	return SUCCESS;
}
int cublasLtDestroy(void *h) {
	free(h);
	return SUCCESS;
}
size_t cublasLtGetVersion(void) { return fault("old") ? 11803 : 120987; }
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
	if (attribute != 3 || bytes != 4)
		return INVALID_VALUE;
	memcpy(&((operation *)o)->transpose, value, bytes);
	return SUCCESS;
}

int cublasLtMatrixLayoutCreate(void **made, int type, uint64_t rows, uint64_t columns, int64_t ld) {
	if (type != 0 || ld < (int64_t)rows)
		return INVALID_VALUE;
	layout *l = malloc(sizeof *l);
	*l = (layout){rows, columns, ld};
	*made = l;
	return SUCCESS;
}
int cublasLtMatrixLayoutDestroy(void *l) {
	free(l);
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
	if (!h || lc != ld || most < 3 || p->reduction != 0 || p->workspace < WORKSPACE)
		return NOT_SUPPORTED;
	uint64_t k = op->transpose ? a->rows : a->columns;
	if ((op->transpose ? a->columns : a->rows) != c->rows || b->rows != k || b->columns != c->columns)
		return INVALID_VALUE;
	for (*found = 0; *found < 3; ++*found) {
		choice *each = &choices[*found];
		memset(each, 0, sizeof *each);
		each->algo.data[0] = (uint64_t)*found + 1;
		for (int i = 0; i < 4; i++)
			each->algo.data[1 + i] = p->alignment[i];
		each->workspace = WORKSPACE;
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

/* One product, to be computed in its stream's order: each number as one sum in the
   order of k. Columns lie one after the other. */
typedef struct {
	const float *a, *b;
	float *c;
	operation o;
	layout la, lb, lc;
} product;

static float rounded(float x, int compute) {
	uint32_t u, dropped = compute == 75 ? 16 : compute == 77 ? 13 : 0; /* bfloat16, TF32 */
	memcpy(&u, &x, 4);
	if (!dropped || x != x)
		return x;
	u = (u + (1u << (dropped - 1))) >> dropped << dropped;
	memcpy(&x, &u, 4);
	return x;
}

static void compute(void *data) {
	const product *p = data;
	int64_t m = p->lc.rows, n = p->lc.columns, k = p->o.transpose ? p->la.rows : p->la.columns;
	int mixes = fault("mixes"), place = fault("place"), loses = fault("loses"), last = fault("last");
	for (int64_t j = 0; j < n; j++)
		for (int64_t i = 0; i < m; i++) {
			float sum = 0;
			for (int64_t l = 0; l < k; l++) {
				float x = p->o.transpose ? p->a[l + i * p->la.ld] : p->a[i + l * p->la.ld];
				sum += rounded(x, p->o.compute) * rounded(p->b[l + j * p->lb.ld], p->o.compute);
			}
			float *to = &p->c[i + j * p->lc.ld];
			if (mixes && j > 0) /* what is not zero of one record in another's numbers */
				sum += 1e-30f * to[-p->lc.ld];
			if (place && j % 16 > 7) /* other roundings in another part of a tile */
				sum *= 1 + 0x1p-23f;
			if (last && j == n - 1) /* another kernel for the last tile */
				sum *= 1 + 0x1p-23f;
			if (loses && sum != sum)
				sum = 0;
			*to = sum;
		}
}

int cublasLtMatmul(void *made, void *o, const float *alpha, void *a, void *la, void *b, void *lb, const float *beta,
	void *c, void *lc, void *d, void *ld, const algorithm *algo, void *workspace, size_t bytes, void *stream) {
	handle *h = made;
	void *const operands[] = {a, b, c, d};
	for (int i = 0; i < 4; i++)
		if ((uint64_t)operands[i] % algo->data[1 + i])
			return INVALID_VALUE;
	if (algo->data[0] != 3 || *alpha != 1 || *beta != 0 || c != d || lc != ld || !workspace || bytes < WORKSPACE)
		return NOT_SUPPORTED;
	int status = 0;
	if (fault("at once") && (h->capturing(stream, &status) || status))
		return EXECUTION_FAILED;
	product *p = malloc(sizeof *p); /* kept: a graph may compute it again */
	*p = (product){a, b, c, *(operation *)o, *(layout *)la, *(layout *)lb, *(layout *)lc};
	return h->launch(stream, compute, p) ? EXECUTION_FAILED : SUCCESS;
}
