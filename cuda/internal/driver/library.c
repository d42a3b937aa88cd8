//go:build gpu

#include <dlfcn.h>
#include <stdio.h>

#include "library.h"

int driver_load_library(const char *path, char *failure, size_t bytes) {
	if (dlopen(path, RTLD_LAZY | RTLD_LOCAL))
		return 1;
	snprintf(failure, bytes, "%s", dlerror());
	return 0;
}

int driver_load_functions(const char *path, const driver_function *functions, size_t count, int *found, char *failure, size_t bytes) {
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(failure, bytes, "%s", dlerror());
		return 0;
	}
	*found = 1;
	for (size_t i = 0; i < count; i++) {
		void *function = dlsym(library, functions[i].name);
		if (!function) {
			snprintf(failure, bytes, "%s lacks %s", path, functions[i].name);
			dlclose(library);
			return 0;
		}
		*(void **)functions[i].slot = function;
	}
	return 1;
}
