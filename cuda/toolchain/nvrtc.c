//go:build gpu

#include <dlfcn.h>
#include <stdlib.h>

#include "nvrtc.h"

#define FIND(name) \
	do { \
		*(void **)&calls->name = dlsym(library, "nvrtc" #name); \
		if (!calls->name) \
			return dlerror(); \
	} while (0)

const char *nvrtc_open(nvrtc *calls, const char *path) {
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return dlerror();
	FIND(GetErrorString);
	FIND(Version);
	FIND(CreateProgram);
	FIND(CompileProgram);
	FIND(GetProgramLogSize);
	FIND(GetProgramLog);
	FIND(GetCUBINSize);
	FIND(GetCUBIN);
	FIND(GetPTXSize);
	FIND(GetPTX);
	FIND(DestroyProgram);
	int failed = calls->Version(&calls->major, &calls->minor);
	return failed ? calls->GetErrorString(failed) : NULL;
}

const char *nvrtc_compile(const nvrtc *calls, const char *source, int headers, char **names, char **texts,
	int options, char **flags, int ptx, nvrtc_image *image) {
	void *program;
	int failed = calls->CreateProgram(&program, source, "kernels", headers,
		(const char *const *)texts, (const char *const *)names);
	if (failed)
		return calls->GetErrorString(failed);
	failed = calls->CompileProgram(program, options, (const char *const *)flags);
	size_t size = 0;
	if (!calls->GetProgramLogSize(program, &size) && (image->log = calloc(size + 1, 1)))
		calls->GetProgramLog(program, image->log);
	if (!failed)
		failed = (ptx ? calls->GetPTXSize : calls->GetCUBINSize)(program, &image->bytes);
	if (!failed) {
		image->code = malloc(image->bytes);
		failed = (ptx ? calls->GetPTX : calls->GetCUBIN)(program, image->code);
	}
	calls->DestroyProgram(&program);
	return failed ? calls->GetErrorString(failed) : NULL;
}
