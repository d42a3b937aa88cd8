// The driver's memory calls: allocations, copies, fills.
#include <string.h>
#include <vector>
#include "fault.h"
#include "memory.h"
#include "stream.h"

namespace emu {

using Pointer = uintptr_t;  // CUdeviceptr

static void *at(Pointer p) { return reinterpret_cast<void *>(p); }

static bool check_device_range(const char *what, Pointer p, size_t bytes) {
	if (allocation_of(Kind::device, at(p), bytes) != nullptr) return true;
	print_error("%s of %zu bytes at %s", what, bytes, describe(at(p)).c_str());
	return false;
}

// Memory calls may wait for the device, which a capture forbids.
template <class F> static int call_outside_capture(F f) {
	return call_in_context([&](Context &c) -> int {
		int error = refuse_in_capture();
		return error ? error : f(c);
	});
}

static int allocate_for(Context &c, Kind kind, void **p, size_t bytes) {
	if (p == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
	*p = allocate(kind, bytes, &c);
	return *p ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

// Work that was queued before may still use the memory.
static int free_for(Context &c, Kind kind, void *p) {
	if (p == nullptr) return 0;
	int error = finish_all(c);
	if (!release(kind, p)) return CUDA_ERROR_INVALID_VALUE;
	if (error == 0) error = c.error = take_error();
	return error;
}

API cuMemAlloc_v2(Pointer *p, size_t bytes) {
	return call_outside_capture([&](Context &c) { return allocate_for(c, Kind::device, reinterpret_cast<void **>(p), bytes); });
}
API cuMemFree_v2(Pointer p) {
	return call_outside_capture([&](Context &c) { return free_for(c, Kind::device, at(p)); });
}
API cuMemHostAlloc(void **p, size_t bytes, unsigned) {
	return call_outside_capture([&](Context &c) { return allocate_for(c, Kind::host, p, bytes); });
}
API cuMemAllocHost_v2(void **p, size_t bytes) { return cuMemHostAlloc(p, bytes, 0); }
API cuMemFreeHost(void *p) {
	return call_outside_capture([&](Context &c) { return free_for(c, Kind::host, p); });
}
API cuMemHostRegister_v2(void *p, size_t bytes, unsigned) {
	return call_outside_capture([&](Context &) -> int {
		if (p == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
		return register_host(p, bytes) ? 0 : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	});
}
API cuMemHostUnregister(void *p) {
	return call_outside_capture([&](Context &c) -> int {
		int error = finish_all(c);
		if (!unregister_host(p)) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
		return error;
	});
}
API cuMemHostGetDevicePointer_v2(Pointer *p, void *host, unsigned) {
	return call_in_context([&](Context &) -> int {
		if (p == nullptr || !page_locked(host, 0)) return CUDA_ERROR_INVALID_VALUE;
		*p = Pointer(host);
		return 0;
	});
}
API cuMemGetInfo_v2(size_t *free, size_t *total) {
	return call_in_context([&](Context &) -> int {
		if (free != nullptr) *free = memory_free();
		if (total != nullptr) *total = memory_total();
		return 0;
	});
}
API cuMemGetAddressRange_v2(Pointer *begin, size_t *bytes, Pointer p) {
	return call_in_context([&](Context &) -> int {
		const Allocation *a = allocation_of(Kind::device, at(p), 0);
		if (a == nullptr) return CUDA_ERROR_INVALID_VALUE;
		if (begin != nullptr) *begin = Pointer(a->begin);
		if (bytes != nullptr) *bytes = a->bytes;
		return 0;
	});
}

static int copy(const std::shared_ptr<Stream> &s, void *to, const void *from, size_t bytes) {
	return push(s, [to, from, bytes] {
		memmove(to, from, bytes);
		return 0;
	});
}

// Host memory that is not page-locked is read or written before the call returns, as the
// driver's manual documents ("API synchronization behavior"); a capture cannot do this.
static int copy_in(const std::shared_ptr<Stream> &s, Pointer to, const void *from, size_t bytes) {
	if (bytes == 0) return 0;
	if (!check_device_range("copy to the device", to, bytes)) return CUDA_ERROR_INVALID_VALUE;
	if (page_locked(from, bytes)) return copy(s, at(to), from, bytes);
	if (s->capture) return invalidate(*s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	const char *bytes_of = static_cast<const char *>(from);
	return push(s, [to, staged = std::vector<char>(bytes_of, bytes_of + bytes)] {
		memcpy(at(to), staged.data(), staged.size());
		return 0;
	});
}
static int copy_out(const std::shared_ptr<Stream> &s, void *to, Pointer from, size_t bytes) {
	if (bytes == 0) return 0;
	if (!check_device_range("copy from the device", from, bytes)) return CUDA_ERROR_INVALID_VALUE;
	if (page_locked(to, bytes)) return copy(s, to, at(from), bytes);
	if (s->capture) return invalidate(*s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	int error = copy(s, to, at(from), bytes);
	return error ? error : finish(s);
}
static int copy_within(const std::shared_ptr<Stream> &s, Pointer to, Pointer from, size_t bytes) {
	if (bytes == 0) return 0;
	if (!check_device_range("copy to the device", to, bytes) || !check_device_range("copy from the device", from, bytes)) return CUDA_ERROR_INVALID_VALUE;
	if (to < from + bytes && from < to + bytes) {  // a GPU copies in an undefined order
		print_error("copy of %zu bytes to %s from %s, which overlap", bytes, describe(at(to)).c_str(), describe(at(from)).c_str());
		return CUDA_ERROR_INVALID_VALUE;
	}
	return copy(s, at(to), at(from), bytes);
}

// The calls without a stream use the default stream and wait for it.
template <class F> static int on_default_stream(F f) {
	return call_outside_capture([&](Context &c) -> int {
		std::shared_ptr<Stream> s = stream_of(c, nullptr);
		int error = f(s);
		return error ? error : finish(s);
	});
}

API cuMemcpyHtoDAsync_v2(Pointer to, const void *from, size_t bytes, void *stream) {
	return with_stream(stream, [&](Context &, auto &s) { return copy_in(s, to, from, bytes); });
}
API cuMemcpyDtoHAsync_v2(void *to, Pointer from, size_t bytes, void *stream) {
	return with_stream(stream, [&](Context &, auto &s) { return copy_out(s, to, from, bytes); });
}
API cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, void *stream) {
	return with_stream(stream, [&](Context &, auto &s) { return copy_within(s, to, from, bytes); });
}
API cuMemcpyHtoD_v2(Pointer to, const void *from, size_t bytes) {
	return on_default_stream([&](auto &s) { return copy_in(s, to, from, bytes); });
}
API cuMemcpyDtoH_v2(void *to, Pointer from, size_t bytes) {
	return on_default_stream([&](auto &s) { return copy_out(s, to, from, bytes); });
}
API cuMemcpyDtoD_v2(Pointer to, Pointer from, size_t bytes) {
	return on_default_stream([&](auto &s) { return copy_within(s, to, from, bytes); });
}

template <class T> static int fill(const std::shared_ptr<Stream> &s, Pointer to, T value, size_t count) {
	if (count == 0) return 0;
	if (to % sizeof(T) != 0 || count > SIZE_MAX / sizeof(T) || !check_device_range("fill", to, count * sizeof(T))) return CUDA_ERROR_INVALID_VALUE;
	return push(s, [to, value, count] {
		T *p = static_cast<T *>(at(to));
		for (size_t i = 0; i < count; i++) p[i] = value;
		return 0;
	});
}

#define FILL(name, T)                                                                                      \
	API cuMemset##name##_v2(Pointer to, T value, size_t count) {                                           \
		return on_default_stream([&](auto &s) { return fill(s, to, value, count); });                      \
	}                                                                                                      \
	API cuMemset##name##Async(Pointer to, T value, size_t count, void *stream) {                           \
		return with_stream(stream, [&](Context &, auto &s) { return fill(s, to, value, count); });         \
	}
FILL(D8, unsigned char)
FILL(D16, unsigned short)
FILL(D32, unsigned)
#undef FILL

}  // namespace emu
