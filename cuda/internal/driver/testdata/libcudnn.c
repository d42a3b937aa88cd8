/* A stand-in of cuDNN for the emulated device: the functions that the driver uses,
   with their meaning in NVIDIA's documentation, and refusals where a call breaks it. Of
   the ways that it offers to compute a convolution only the last is right: the first is
   not supported, the second not deterministic, the third a transform, and the fourth
   takes too much workspace, or is a transform too. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_INITIALIZED = 1, BAD_PARAM = 3, EXECUTION_FAILED = 8, NOT_SUPPORTED = 9 };
enum { TENSOR_OP_MATH = 1, ALLOW_CONVERSION = 2, FMA_MATH = 3, WORKSPACE = 1000 };

typedef struct {
	int set, n, c, h, w;
} tensor; /* of kernels too */
typedef struct {
	int set, pad[2], stride[2], dilation[2], groups, math;
} window;
typedef struct {
	int algo, status;
	float time;
	size_t memory;
	int determinism, math;
	int reserved[3];
} choice;
typedef struct {
	int (*launch)(void *stream, void (*function)(void *), void *data);
	int (*capturing)(void *stream, int *status);
	void *stream;
} handle;

/* What DPTRAIN_TWIN names is wrong with this library. */
static int fault(const char *name) {
	const char *planted = getenv("DPTRAIN_TWIN");
	return planted && !strcmp(planted, name);
}

/* As cuDNN, it loads cuBLASLt by its name, and ends the process if there is none. */
int cudnnCreate(void **made) {
	if (fault("aborts") || !dlopen("libcublasLt.so.12", RTLD_LAZY))
		abort();
	void *driver = dlopen(getenv("DPTRAIN_LIBCUDA"), RTLD_NOW);
	if (!driver || fault("no start"))
		return NOT_INITIALIZED;
	handle *h = calloc(1, sizeof *h);
	*(void **)&h->launch = dlsym(driver, "cuLaunchHostFunc");
	*(void **)&h->capturing = dlsym(driver, "cuStreamIsCapturing");
	*made = h;
	return SUCCESS;
}
int cudnnDestroy(void *h) {
	free(h);
	return SUCCESS;
}
size_t cudnnGetVersion(void) { return fault("old") ? 8806 : fault("eight") ? 8907 : 91002; }
size_t cudnnGetCudartVersion(void) { return fault("new") ? 14000 : 12090; }
const char *cudnnGetErrorString(int status) {
	return status == NOT_INITIALIZED ? "CUDNN_STATUS_NOT_INITIALIZED" : status == BAD_PARAM ? "CUDNN_STATUS_BAD_PARAM" : "CUDNN_STATUS_OTHER";
}
int cudnnSetStream(void *h, void *stream) {
	((handle *)h)->stream = stream;
	return SUCCESS;
}

static int make(void **made, size_t bytes) {
	*made = calloc(1, bytes);
	return SUCCESS;
}
static int drop(void *made) {
	free(made);
	return SUCCESS;
}
static int size(void *made, int n, int c, int h, int w) {
	if (n < 1 || c < 1 || h < 1 || w < 1)
		return BAD_PARAM;
	*(tensor *)made = (tensor){1, n, c, h, w};
	return SUCCESS;
}
int cudnnCreateTensorDescriptor(void **made) { return make(made, sizeof(tensor)); }
int cudnnDestroyTensorDescriptor(void *made) { return drop(made); }
int cudnnSetTensor4dDescriptor(void *made, int format, int type, int n, int c, int h, int w) {
	return format || type ? BAD_PARAM : size(made, n, c, h, w);
}
int cudnnCreateFilterDescriptor(void **made) { return make(made, sizeof(tensor)); }
int cudnnDestroyFilterDescriptor(void *made) { return drop(made); }
int cudnnSetFilter4dDescriptor(void *made, int type, int format, int k, int c, int h, int w) {
	return format || type ? BAD_PARAM : size(made, k, c, h, w);
}
int cudnnCreateConvolutionDescriptor(void **made) { return make(made, sizeof(window)); }
int cudnnDestroyConvolutionDescriptor(void *made) { return drop(made); }
int cudnnSetConvolution2dDescriptor(void *made, int pad_h, int pad_w, int u, int v, int dilation_h, int dilation_w, int mode, int type) {
	if (mode != 1 || type != 0 || pad_h < 0 || pad_w < 0 || u < 1 || v < 1 || dilation_h < 1 || dilation_w < 1)
		return BAD_PARAM;
	*(window *)made = (window){1, {pad_h, pad_w}, {u, v}, {dilation_h, dilation_w}, 1, 0};
	return SUCCESS;
}
int cudnnSetConvolutionGroupCount(void *made, int groups) {
	((window *)made)->groups = groups;
	return ((window *)made)->set ? SUCCESS : BAD_PARAM;
}
int cudnnSetConvolutionMathType(void *made, int math) {
	((window *)made)->math = math;
	return ((window *)made)->set && (math == TENSOR_OP_MATH || math == FMA_MATH) ? SUCCESS : BAD_PARAM;
}

/* Whether the descriptions are complete and fit each other. */
static int fit(const handle *h, const tensor *x, const tensor *w, const window *v, const tensor *y) {
	if (!h || !x->set || !w->set || !v->set || !y->set || v->groups < 1 || w->c * v->groups != x->c || w->n != y->c || w->n % v->groups || x->n != y->n)
		return 0;
	int high = (x->h + 2 * v->pad[0] - v->dilation[0] * (w->h - 1) - 1) / v->stride[0] + 1;
	int wide = (x->w + 2 * v->pad[1] - v->dilation[1] * (w->w - 1) - 1) / v->stride[1] + 1;
	return y->h == high && y->w == wide;
}

static int offer(const window *v, int most, int *found, choice *choices, const int *algos) {
	for (*found = 0; *found < 5 && *found < most; ++*found) {
		int i = *found;
		choices[i] = (choice){algos[i], i == 0 ? NOT_SUPPORTED : SUCCESS, 0.1f * (float)i, WORKSPACE, i != 1 && !fault("random"), fault("halves") ? ALLOW_CONVERSION : v->math, {0}};
	}
	return SUCCESS;
}
static int taken(int algo, int huge, size_t *bytes) {
	*bytes = algo == huge || fault("greedy") ? (size_t)1 << 40 : fault("too little") ? WORKSPACE - 1 : WORKSPACE;
	return SUCCESS;
}

int cudnnGetConvolutionForwardAlgorithm_v7(void *h, void *x, void *w, void *v, void *y, int most, int *found, choice *choices) {
	static const int algos[] = {0, 0, 6, 2, 1};
	return fit(h, x, w, v, y) ? offer(v, most, found, choices, algos) : BAD_PARAM;
}
int cudnnGetConvolutionBackwardDataAlgorithm_v7(void *h, void *w, void *y, void *v, void *x, int most, int *found, choice *choices) {
	static const int algos[] = {1, 0, 4, 5, 1};
	return fit(h, x, w, v, y) ? offer(v, most, found, choices, algos) : BAD_PARAM;
}
int cudnnGetConvolutionForwardWorkspaceSize(void *h, void *x, void *w, void *v, void *y, int algo, size_t *bytes) {
	return fit(h, x, w, v, y) ? taken(algo, 2, bytes) : BAD_PARAM;
}
int cudnnGetConvolutionBackwardDataWorkspaceSize(void *h, void *w, void *y, void *v, void *x, int algo, size_t *bytes) {
	return fit(h, x, w, v, y) ? taken(algo, 0, bytes) : BAD_PARAM;
}

/* One convolution, to be computed in its stream's order. */
typedef struct {
	const float *in, *kernels;
	float *out;
	tensor x, w, y;
	window v;
	int backward;
} convolution;

static float rounded(float x, int math) {
	uint32_t u;
	memcpy(&u, &x, 4);
	if (math == FMA_MATH || x != x)
		return x;
	u = (u + 0x1000) & ~0x1fffu; /* TF32 */
	memcpy(&x, &u, 4);
	return x;
}

/* Adds up what place (oy, ox) of output o meets, or, backward, gives to what it met. */
static void meet(const convolution *p, int n, int o, int oy, int ox, double *sums) {
	const tensor *x = &p->x, *w = &p->w, *y = &p->y;
	int group = o / (w->n / p->v.groups);
	int64_t at = ((int64_t)(n * y->c + o) * y->h + oy) * y->w + ox;
	for (int c = 0; c < w->c; c++)
		for (int ky = 0; ky < w->h; ky++)
			for (int kx = 0; kx < w->w; kx++) {
				int iy = oy * p->v.stride[0] - p->v.pad[0] + ky * p->v.dilation[0];
				int ix = ox * p->v.stride[1] - p->v.pad[1] + kx * p->v.dilation[1];
				if (iy < 0 || iy >= x->h || ix < 0 || ix >= x->w)
					continue;
				int64_t cell = ((int64_t)(n * x->c + group * w->c + c) * x->h + iy) * x->w + ix;
				float k = rounded(p->kernels[((o * w->c + c) * w->h + ky) * w->w + kx], p->v.math);
				float value = rounded(p->in[p->backward ? at : cell], p->v.math);
				sums[p->backward ? cell : at] += (double)k * value;
			}
}

static void compute(void *data) {
	const convolution *p = data;
	const tensor *out = p->backward ? &p->x : &p->y;
	int64_t each = (int64_t)out->c * out->h * out->w, all = out->n * each;
	double *sums = calloc((size_t)all, sizeof *sums);
	for (int n = 0; n < p->y.n; n++)
		for (int o = 0; o < p->y.c; o++)
			for (int oy = 0; oy < p->y.h; oy++)
				for (int ox = 0; ox < p->y.w; ox++)
					meet(p, n, o, oy, ox, sums);
	int mixes = fault("mixes"), place = fault("place"), loses = fault("loses");
	for (int64_t i = 0; i < all; i++) {
		float sum = (float)sums[i];
		if (mixes && i >= each) /* what is not zero of one record in another's numbers */
			sum += 1e-30f * p->out[i - each];
		if (place && i / each % 4 == 3) /* other roundings in another part of a tile */
			sum *= 1 + 0x1p-23f;
		if (loses && sum != sum)
			sum = 0;
		p->out[i] = sum;
	}
	free(sums);
}

static int run(handle *h, convolution p, int algo, const void *alpha, const void *beta, const void *workspace, size_t bytes) {
	if (algo != 1 || *(const float *)alpha != 1 || *(const float *)beta != 0 || !p.in || !p.kernels || !p.out ||
		((uint64_t)p.in | (uint64_t)p.kernels | (uint64_t)p.out) % 4 || !fit(h, &p.x, &p.w, &p.v, &p.y))
		return BAD_PARAM;
	if (!workspace || bytes < WORKSPACE || !h->stream)
		return BAD_PARAM;
	int status = 0;
	if (fault("fails") || (fault("at once") && (h->capturing(h->stream, &status) || status)))
		return EXECUTION_FAILED;
	convolution *kept = malloc(sizeof *kept); /* kept: a graph may compute it again */
	*kept = p;
	return h->launch(h->stream, compute, kept) ? EXECUTION_FAILED : SUCCESS;
}

int cudnnConvolutionForward(void *h, const void *alpha, void *xd, const void *x, void *wd, const void *w, void *v, int algo,
	void *workspace, size_t bytes, const void *beta, void *yd, void *y) {
	convolution p = {x, w, y, *(tensor *)xd, *(tensor *)wd, *(tensor *)yd, *(window *)v, 0};
	return run(h, p, algo, alpha, beta, workspace, bytes);
}
int cudnnConvolutionBackwardData(void *h, const void *alpha, void *wd, const void *w, void *yd, const void *y, void *v, int algo,
	void *workspace, size_t bytes, const void *beta, void *xd, void *x) {
	convolution p = {y, w, x, *(tensor *)xd, *(tensor *)wd, *(tensor *)yd, *(window *)v, 1};
	return run(h, p, algo, alpha, beta, workspace, bytes);
}
