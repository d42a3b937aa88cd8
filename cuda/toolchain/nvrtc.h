#ifndef DPTRAIN_TOOLCHAIN_NVRTC_H
#define DPTRAIN_TOOLCHAIN_NVRTC_H

#include <stddef.h>

/* The calls of NVRTC that a compilation takes, from its documentation. */
typedef struct {
	int major, minor;
	const char *(*GetErrorString)(int);
	int (*Version)(int *, int *);
	int (*CreateProgram)(void **, const char *, const char *, int, const char *const *, const char *const *);
	int (*CompileProgram)(void *, int, const char *const *);
	int (*GetProgramLogSize)(void *, size_t *);
	int (*GetProgramLog)(void *, char *);
	int (*GetCUBINSize)(void *, size_t *);
	int (*GetCUBIN)(void *, char *);
	int (*GetPTXSize)(void *, size_t *);
	int (*GetPTX)(void *, char *);
	int (*DestroyProgram)(void **);
} nvrtc;

typedef struct {
	char *code;
	size_t bytes;
	char *log;
} nvrtc_image;

/* Both return NULL or what went wrong. */
const char *nvrtc_open(nvrtc *calls, const char *library);
const char *nvrtc_compile(const nvrtc *calls, const char *source, int headers, char **names, char **texts,
	int options, char **flags, int ptx, nvrtc_image *image);

#endif
