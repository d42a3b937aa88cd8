// The driver, its one device, and contexts.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thread>
#include <vector>
#include "driver.h"
#include "fault.h"
#include "grid.h"
#include "memory.h"
#include "stream.h"
#include "traffic.h"

namespace emu {

std::mutex driver;
bool initialised;
int arch = 90;
int multiprocessors = 12;  // few and not a power of two, so that blocks do not divide evenly
int launches_left = -1;

static std::set<Context *> contexts;
static Context primary;  // of the device
int version = 12090;
static thread_local std::vector<Context *> stack;  // the last is current

constexpr int device = 0;
static int numbers = 1;  // of devices that the driver shows

Context *current() { return stack.empty() ? nullptr : stack.back(); }
bool is_context(const Context *c) { return contexts.count(const_cast<Context *>(c)) != 0; }

// Reads a number from the environment; a suffix K, M or G stands for a power of 1024.
static bool read_number(const char *name, long long *value) {
	const char *text = getenv(name);
	if (text == nullptr || *text == 0) return true;
	char *end;
	long long n = strtoll(text, &end, 10);
	int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
	if (end == text || n < 0 || end[shift != 0] != 0) {
		fprintf(stderr, "emulated device: %s=%s is not a number\n", name, text);
		return false;
	}
	*value = n << shift;
	return true;
}

// The environment variables, with their defaults:
//   DPTRAIN_EMU_MEMORY           bytes of the device (2G)
//   DPTRAIN_EMU_DEVICES          numbers under which there is a device (1), all of which open this one
//   DPTRAIN_EMU_THREADS          threads of the host that run blocks (all processors)
//   DPTRAIN_EMU_LOST             number of launches after which the device is lost (never)
//   DPTRAIN_EMU_DRIVER           the driver's version (12090)
//   DPTRAIN_EMU_ARCH             the compute capability (90)
//   DPTRAIN_EMU_MULTIPROCESSORS  number of multiprocessors (12)
//   DPTRAIN_EMU_NAME             the device's name; dptrain treats a device with another name as
//                                a GPU
//   DPTRAIN_EMU_ORDER            order of blocks and threads: forward, reverse or the number of a
//                                shuffle (forward; see worker.h)
//   DPTRAIN_EMU_LOSSY_EDGES      if set, cuGraphGetEdges fails, as for edges with data
//   DPTRAIN_EMU_TRAFFIC          file for the counts of memory traffic (traffic.h)
//   DPTRAIN_EMU_BYTES            file for the launches and bytes of each kernel (traffic.h)
static bool read_environment() {
	long long memory = (long long)memory_total(), threads = std::thread::hardware_concurrency(), lost = -1, driver_version = version, card = arch, many = multiprocessors, devices = 1;
	if (!read_number("DPTRAIN_EMU_MEMORY", &memory) || !read_number("DPTRAIN_EMU_THREADS", &threads) || !read_number("DPTRAIN_EMU_LOST", &lost) ||
	    !read_number("DPTRAIN_EMU_DRIVER", &driver_version) || !read_number("DPTRAIN_EMU_ARCH", &card) ||
	    !read_number("DPTRAIN_EMU_MULTIPROCESSORS", &many) || !read_number("DPTRAIN_EMU_DEVICES", &devices))
		return false;
	set_memory_total(size_t(memory));
	set_workers(int(threads));
	launches_left = int(lost);
	version = int(driver_version);
	arch = int(card);
	multiprocessors = many < 1 ? 1 : int(many);
	numbers = devices < 1 ? 1 : int(devices);
	const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
	blocking_launches = blocking != nullptr && strcmp(blocking, "1") == 0;
	begin_traffic();

	const char *turns = getenv("DPTRAIN_EMU_ORDER");
	if (turns == nullptr || *turns == 0 || strcmp(turns, "forward") == 0) return true;
	long long seed = 0;
	if (strcmp(turns, "reverse") == 0) {
		order.kind = Order::reverse;
	} else if (!read_number("DPTRAIN_EMU_ORDER", &seed)) {
		fprintf(stderr, "emulated device: DPTRAIN_EMU_ORDER must be forward, reverse or the number of a shuffle\n");
		return false;
	} else {
		order = Order{Order::shuffled, uint64_t(seed)};
	}
	return true;
}

API cuInit(unsigned flags) {
	std::lock_guard<std::mutex> lock(driver);
	if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
	if (initialised) return 0;
	if (!read_environment()) return CUDA_ERROR_INVALID_VALUE;
	install_handlers();
	initialised = true;
	return 0;
}

// The name of this function shows that the library is not NVIDIA's.
API dptrain_emulated_device() { return 0; }

API cuDriverGetVersion(int *v) {
	if (v == nullptr) return CUDA_ERROR_INVALID_VALUE;
	*v = version;
	return 0;
}

#define CODE(name, value, text) {name, #name, text},
static const struct {
	int code;
	const char *name, *text;
} codes[] = {EMU_CODES(CODE)};
#undef CODE

API cuGetErrorName(int code, const char **name) {
	for (const auto &c : codes)
		if (c.code == code) return *name = c.name, 0;
	return *name = nullptr, CUDA_ERROR_INVALID_VALUE;
}
API cuGetErrorString(int code, const char **text) {
	for (const auto &c : codes)
		if (c.code == code) return *text = c.text, 0;
	return *text = nullptr, CUDA_ERROR_INVALID_VALUE;
}

API cuDeviceGetCount(int *count) {
	return call([&]() -> int {
		if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
		*count = numbers;
		return 0;
	});
}

// A call about a device that writes its result to p.
template <class F> static int call_for_device(int d, const void *p, F f) {
	return call([&]() -> int {
		if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
		if (d != device) return CUDA_ERROR_INVALID_DEVICE;
		return f();
	});
}

API cuDeviceGet(int *d, int ordinal) {
	if (ordinal > 0 && ordinal < numbers) ordinal = device;
	return call_for_device(ordinal, d, [&] { return *d = device, 0; });
}
API cuDeviceGetName(char *name, int length, int d) {
	return call_for_device(d, name, [&] {
		if (length <= 0) return int(CUDA_ERROR_INVALID_VALUE);
		const char *other = getenv("DPTRAIN_EMU_NAME");
		snprintf(name, size_t(length), "%s", other != nullptr ? other : "emulated device");
		return 0;
	});
}
API cuDeviceGetUuid_v2(void *uuid, int d) {
	return call_for_device(d, uuid, [&] { return memcpy(uuid, "emulated\0\0\0\0\0\0\0", 16), 0; });
}
API cuDeviceGetUuid(void *uuid, int d) { return cuDeviceGetUuid_v2(uuid, d); }
API cuDeviceTotalMem_v2(size_t *bytes, int d) {
	return call_for_device(d, bytes, [&] { return *bytes = memory_total(), 0; });
}

API cuDeviceGetAttribute(int *value, int attribute, int d) {
	return call_for_device(d, value, [&] {
		switch (attribute) {
		case 1: *value = max_threads; break;               // MAX_THREADS_PER_BLOCK
		case 2: case 3: *value = 1024; break;               // MAX_BLOCK_DIM_X, Y
		case 4: *value = 64; break;                         // MAX_BLOCK_DIM_Z
		case 5: *value = 0x7fffffff; break;                 // MAX_GRID_DIM_X
		case 6: case 7: *value = 65535; break;              // MAX_GRID_DIM_Y, Z
		case 8: *value = int(shared_bytes); break;          // MAX_SHARED_MEMORY_PER_BLOCK
		case 9: *value = 64 << 10; break;                   // TOTAL_CONSTANT_MEMORY
		case 10: *value = 32; break;                        // WARP_SIZE
		case 12: case 82: *value = 65536; break;            // MAX_REGISTERS_PER_BLOCK, _PER_MULTIPROCESSOR
		case 13: *value = 1000000; break;                   // CLOCK_RATE, kHz
		case 15: case 31: case 41: case 78: *value = 1; break;  // GPU_OVERLAP, CONCURRENT_KERNELS, UNIFIED_ADDRESSING, STREAM_PRIORITIES_SUPPORTED
		case 16: *value = multiprocessors; break;           // MULTIPROCESSOR_COUNT
		case 36: *value = 1000000; break;                   // MEMORY_CLOCK_RATE, kHz
		case 37: *value = 512; break;                       // GLOBAL_MEMORY_BUS_WIDTH
		case 38: *value = 1 << 20; break;                   // L2_CACHE_SIZE
		case 39: *value = 2048; break;                      // MAX_THREADS_PER_MULTIPROCESSOR
		case 40: *value = 2; break;                         // ASYNC_ENGINE_COUNT
		case 75: *value = arch / 10; break;                 // COMPUTE_CAPABILITY_MAJOR
		case 76: *value = arch % 10; break;                 // COMPUTE_CAPABILITY_MINOR
		case 81: *value = 96 << 10; break;                  // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
		case 87: *value = arch % 10 == 0 && arch != 120 ? 2 : 64; break;  // SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
		case 97: *value = int(shared_bytes); break;         // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
		case 99: *value = 1; break;                         // HOST_REGISTER_SUPPORTED
		case 106: *value = 32; break;                       // MAX_BLOCKS_PER_MULTIPROCESSOR
		default:
			if (attribute < 1 || attribute > 143) return int(CUDA_ERROR_INVALID_VALUE);
			*value = 0;
		}
		return 0;
	});
}

// Frees everything that a context owns and clears its error, so that later tests can run.
static void end_context(Context &c) {
	finish_all(c);
	drop_streams(c);
	drop_modules(c);
	release_all(&c);
	contexts.erase(&c);
	take_error();
}

API cuCtxCreate_v2(Context **context, unsigned flags, int d) {
	return call_for_device(d, context, [&] {
		*context = new Context;
		(*context)->flags = flags;
		contexts.insert(*context);
		stack.push_back(*context);
		return 0;
	});
}
API cuCtxDestroy_v2(Context *context) {
	return call([&]() -> int {
		if (!is_context(context) || context == &primary) return CUDA_ERROR_INVALID_CONTEXT;
		end_context(*context);
		if (current() == context) stack.pop_back();
		// Other threads may still have the handle, so the address is not used again.
		return 0;
	});
}

API cuCtxSetCurrent(Context *context) {
	return call([&]() -> int {
		if (context != nullptr && !is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
		if (!stack.empty()) stack.pop_back();
		if (context != nullptr) stack.push_back(context);
		return 0;
	});
}
API cuCtxPushCurrent_v2(Context *context) {
	return call([&]() -> int {
		if (!is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
		stack.push_back(context);
		return 0;
	});
}
API cuCtxPopCurrent_v2(Context **context) {
	return call([&]() -> int {
		if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
		if (context != nullptr) *context = stack.back();
		stack.pop_back();
		return 0;
	});
}
API cuCtxGetCurrent(Context **context) {
	return call([&]() -> int {
		if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
		*context = current();
		return 0;
	});
}
API cuCtxGetDevice(int *d) {
	return call_in_context([&](Context &) -> int {
		if (d == nullptr) return CUDA_ERROR_INVALID_VALUE;
		*d = device;
		return 0;
	});
}
API cuCtxGetFlags(unsigned *flags) {
	return call_in_context([&](Context &c) -> int {
		if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
		*flags = c.flags;
		return 0;
	});
}
API cuCtxGetApiVersion(Context *context, unsigned *v) {
	return call([&]() -> int {
		if (!is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
		*v = unsigned(version);
		return 0;
	});
}
API cuCtxGetStreamPriorityRange(int *least, int *greatest) {
	return call_in_context([&](Context &) -> int {
		if (least != nullptr) *least = 0;
		if (greatest != nullptr) *greatest = -5;
		return 0;
	});
}
API cuCtxSynchronize() {
	return call_in_context([](Context &c) -> int {
		int error = refuse_in_capture();
		return error ? error : finish_all(c);
	});
}

API cuDevicePrimaryCtxRetain(Context **context, int d) {
	return call_for_device(d, context, [&] {
		if (primary.uses++ == 0) contexts.insert(&primary);
		*context = &primary;
		return 0;
	});
}
API cuDevicePrimaryCtxReset_v2(int d) {
	return call_for_device(d, &primary, [&] {
		if (is_context(&primary)) end_context(primary);
		primary.error = 0;
		if (primary.uses > 0) contexts.insert(&primary);
		return 0;
	});
}
API cuDevicePrimaryCtxRelease_v2(int d) {
	return call_for_device(d, &primary, [&] {
		if (primary.uses == 0) return int(CUDA_ERROR_INVALID_CONTEXT);
		if (--primary.uses == 0) {
			end_context(primary);
			primary.error = 0;
		}
		return 0;
	});
}
API cuDevicePrimaryCtxSetFlags_v2(int d, unsigned flags) {
	return call_for_device(d, &primary, [&] { return primary.flags = flags, 0; });
}
API cuDevicePrimaryCtxGetState(int d, unsigned *flags, int *active) {
	return call_for_device(d, &primary, [&] {
		if (flags != nullptr) *flags = primary.flags;
		if (active != nullptr) *active = primary.uses > 0;
		return 0;
	});
}

API cuProfilerStart() { return call_in_context([](Context &) { return 0; }); }
API cuProfilerStop() { return call_in_context([](Context &) { return 0; }); }

}  // namespace emu
