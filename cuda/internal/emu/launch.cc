// Modules, functions and launches. The image of a module must be for this device;
// otherwise its content is ignored, and its functions are the kernels of which this
// library was built.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fault.h"
#include "grid.h"
#include "memory.h"
#include "registry.h"
#include "stream.h"

namespace emu {

struct Function {
	const Kernel *kernel;
};
struct Module {
	Context *context;
	std::set<std::shared_ptr<Function>> functions;
};

static Handles<Module> modules;
static Handles<Function> functions;

static void drop(const std::shared_ptr<Module> &m) {
	for (const auto &f : m->functions) functions.remove(f);
	modules.remove(m);
}

void drop_modules(Context &c) {
	auto all = modules.all;
	for (const auto &m : all)
		if (m->context == &c) drop(m);
}

// The newest PTX that the driver reads: the table of releases in NVIDIA's "Parallel Thread
// Execution ISA".
static double newest_ptx() {
	static const struct {
		int driver;
		double ptx;
	} releases[] = {{13000, 9.0}, {12090, 8.8}, {12080, 8.7}, {12070, 8.6}, {12050, 8.5}, {12040, 8.4}, {12030, 8.3}, {12020, 8.2}, {12010, 8.1}};
	for (const auto &r : releases)
		if (version >= r.driver) return r.ptx;
	return 8.0;
}

// A cubin runs on its own architecture and on later ones of the same major version, PTX
// on its target and all later ones.
static int check_image(const char *image) {
	bool compatible;
	if (memcmp(image, "\x7f""ELF", 4) == 0) {
		int made_for = static_cast<unsigned char>(image[image[8] < 8 ? 48 : 49]);  // the place of the architecture differs from 10.0 on
		compatible = made_for / 10 == arch / 10 && made_for <= arch;
	} else {
		const char *target = strstr(image, ".target sm_"), *made_with = strstr(image, ".version ");
		if (target == nullptr || made_with == nullptr) return CUDA_ERROR_INVALID_IMAGE;
		if (atof(made_with + strlen(".version ")) > newest_ptx() + 0.01) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
		compatible = atoi(target + strlen(".target sm_")) <= arch;
	}
	return compatible ? 0 : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

API cuModuleLoadData(void **module, const void *image) {
	return call_in_context([&](Context &c) -> int {
		if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
		if (int error = check_image(static_cast<const char *>(image))) return error;
		*module = modules.add(std::make_shared<Module>(Module{&c, {}}));
		return 0;
	});
}

// Of the options, the log of errors gets a line if the image is bad.
API cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options, void **values) {
	constexpr int error_log = 5, error_log_bytes = 6;  // CU_JIT_ERROR_LOG_BUFFER and its size
	int error = cuModuleLoadData(module, image);
	char *log = nullptr;
	size_t bytes = 0;
	for (unsigned i = 0; i < count; i++) {
		if (options[i] == error_log) log = static_cast<char *>(values[i]);
		if (options[i] == error_log_bytes) bytes = reinterpret_cast<size_t>(values[i]);
	}
	if (error && log != nullptr) snprintf(log, bytes, "the emulated device\ncannot load the image\n");
	return error;
}

API cuModuleUnload(void *module) {
	return call_in_context([&](Context &c) -> int {
		std::shared_ptr<Module> m = modules.find(module);
		if (!m) return CUDA_ERROR_INVALID_HANDLE;
		int error = finish_all(c);
		drop(m);
		return error;
	});
}

API cuModuleGetFunction(void **function, void *module, const char *name) {
	return call_in_context([&](Context &) -> int {
		std::shared_ptr<Module> m = modules.find(module);
		if (!m) return CUDA_ERROR_INVALID_HANDLE;
		if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
		for (const Kernel *k = kernels; k != nullptr; k = k->next) {
			if (strcmp(k->name, name) != 0) continue;
			auto f = std::make_shared<Function>(Function{k});
			m->functions.insert(f);
			*function = functions.add(f);
			return 0;
		}
		return CUDA_ERROR_NOT_FOUND;
	});
}

template <class F> static int with_function(const void *handle, F f) {
	return call_in_context([&](Context &c) -> int {
		std::shared_ptr<Function> function = functions.find(handle);
		return function ? f(c, *function->kernel) : CUDA_ERROR_INVALID_HANDLE;
	});
}

API cuFuncGetAttribute(int *value, int attribute, void *function) {
	return with_function(function, [&](Context &, const Kernel &k) -> int {
		if (value == nullptr || attribute < 0 || attribute > 15) return CUDA_ERROR_INVALID_VALUE;
		*value = attribute == 0 ? int(k.max_threads) : attribute == 4 ? 32 : 0;  // MAX_THREADS_PER_BLOCK, NUM_REGS
		return 0;
	});
}
API cuFuncSetCacheConfig(void *function, int) {
	return with_function(function, [](Context &, const Kernel &) { return 0; });
}

API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t) {
	return with_function(function, [&](Context &, const Kernel &k) -> int {
		if (blocks == nullptr || threads < 1) return CUDA_ERROR_INVALID_VALUE;
		*blocks = unsigned(threads) > k.max_threads ? 0 : std::min(32, 2048 / threads);
		return 0;
	});
}
API cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, void *function, int threads, size_t shared, unsigned) {
	return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}
API cuOccupancyMaxPotentialBlockSize(int *blocks, int *threads, void *function, void *, size_t, int limit) {
	return with_function(function, [&](Context &, const Kernel &k) -> int {
		if (blocks == nullptr || threads == nullptr) return CUDA_ERROR_INVALID_VALUE;
		*threads = limit > 0 ? std::min(limit, int(k.max_threads)) : int(k.max_threads);
		*blocks = multiprocessors * (2048 / *threads);
		return 0;
	});
}

// Copies the arguments from an array of their addresses or from one packed buffer.
static int copy_arguments(const Kernel &k, void **each, void **extra, unsigned char *to) {
	if (k.parameter_count == 0) return 0;
	if (each != nullptr) {
		for (int i = 0; i < k.parameter_count; i++) {
			if (each[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
			memcpy(to + k.parameters[i].offset, each[i], k.parameters[i].size);
		}
		return 0;
	}
	const void *buffer = nullptr;
	size_t bytes = 0;
	for (; extra != nullptr && *extra != nullptr; extra += 2) {
		if (uintptr_t(extra[0]) == 1) buffer = extra[1];                                // CU_LAUNCH_PARAM_BUFFER_POINTER
		else if (uintptr_t(extra[0]) == 2) bytes = *static_cast<const size_t *>(extra[1]);  // CU_LAUNCH_PARAM_BUFFER_SIZE
		else return CUDA_ERROR_INVALID_VALUE;
	}
	if (buffer == nullptr || bytes != k.argument_bytes) {
		print_error("%s takes %zu bytes of arguments, but the call passes %zu", k.name, k.argument_bytes, bytes);
		return CUDA_ERROR_INVALID_VALUE;
	}
	memcpy(to, buffer, k.argument_bytes);
	return 0;
}

// On a GPU a pointer to memory of another device or of the host faults when it is used.
// Here it could work, so pointers are checked before the launch.
static bool check_pointers(const Kernel &k, const unsigned char *arguments) {
	for (int i = 0; i < k.parameter_count; i++) {
		void *p;
		if (!k.parameters[i].pointer) continue;
		memcpy(&p, arguments + k.parameters[i].offset, sizeof p);
		if (p == nullptr || allocation_of(Kind::device, p, 0) || page_locked(p, 0)) continue;
		print_error("%s: argument %d (of %d) points to %s", k.name, i + 1, k.parameter_count, describe(p).c_str());
		return false;
	}
	return true;
}

// Runs a launch and checks that it did not write just outside its memory.
static int execute(const Launch &l) {
	if (launches_left == 0) return CUDA_ERROR_DEVICE_UNAVAILABLE;
	if (launches_left > 0) launches_left--;
	run(l);
	int error = take_error();
	for (size_t i = 0; i + sizeof(void *) <= l.kernel->argument_bytes && error == 0; i += sizeof(void *)) {
		void *p;  // may be a pointer: arguments can be structs that contain pointers
		memcpy(&p, l.arguments + i, sizeof p);
		if (const Allocation *a = allocation_of(Kind::device, p, 0)) check_edges(a, l.kernel->name);
		error = take_error();
	}
	return error;
}

API cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **each, void **extra) {
	return with_function(function, [&](Context &c, const Kernel &k) -> int {
		std::shared_ptr<Stream> s = stream_of(c, stream);
		if (!s) return CUDA_ERROR_INVALID_HANDLE;
		uint64_t threads = uint64_t(bx) * by * bz;
		if (gx < 1 || gx > 0x7fffffff || gy < 1 || gy > 65535 || gz < 1 || gz > 65535 || bx < 1 || bx > 1024 || by < 1 || by > 1024 || bz < 1 || bz > 64 || threads > k.max_threads) {
			print_error("%s: a grid of (%u,%u,%u) blocks of (%u,%u,%u) threads is invalid; a block of this kernel has at most %u threads", k.name, gx, gy, gz, bx, by, bz, k.max_threads);
			return CUDA_ERROR_INVALID_VALUE;
		}
		if (shared != 0) {
			print_error("%s: asks for %u bytes of dynamic shared memory; the kernels here have static arrays only", k.name, shared);
			return CUDA_ERROR_INVALID_VALUE;
		}
		auto l = std::make_shared<Launch>();
		l->kernel = &k;
		l->grid = uint3{gx, gy, gz};
		l->block = uint3{bx, by, bz};
		if (int error = copy_arguments(k, each, extra, l->arguments)) return error;
		if (!check_pointers(k, l->arguments)) return CUDA_ERROR_INVALID_VALUE;
		return push(s, [l] { return execute(*l); });
	});
}

// The host's function runs in the stream's order and may not call the driver.
API cuLaunchHostFunc(void *stream, void (*function)(void *), void *data) {
	return with_stream(stream, [&](Context &, auto &s) -> int {
		if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
		return push(s, [function, data] { return function(data), 0; });
	});
}

}  // namespace emu
