// Shared by the driver's files: result codes, contexts, and the common part of every
// call.
//
// One lock guards all of the driver's state. A call holds the lock while it waits for the
// device thread, so the device thread needs no further locks.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <memory>
#include <mutex>
#include <set>

namespace emu {

#define EMU_CODES(CODE)                                                                                              \
	CODE(CUDA_SUCCESS, 0, "no error")                                                                                \
	CODE(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                                                            \
	CODE(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                                                               \
	CODE(CUDA_ERROR_NOT_INITIALIZED, 3, "the driver was not initialised")                                            \
	CODE(CUDA_ERROR_DEVICE_UNAVAILABLE, 46, "the device was lost")                                                   \
	CODE(CUDA_ERROR_NO_DEVICE, 100, "no device")                                                                     \
	CODE(CUDA_ERROR_INVALID_DEVICE, 101, "no such device")                                                           \
	CODE(CUDA_ERROR_INVALID_IMAGE, 200, "the image is not device code")                                              \
	CODE(CUDA_ERROR_INVALID_CONTEXT, 201, "this thread has no current context, or an unknown one")                   \
	CODE(CUDA_ERROR_NO_BINARY_FOR_GPU, 209, "the image is for other devices")                                        \
	CODE(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222, "the PTX is newer than the driver")                                \
	CODE(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708, "the primary context is in use")                                    \
	CODE(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "the context was destroyed")                                          \
	CODE(CUDA_ERROR_INVALID_HANDLE, 400, "unknown handle")                                                           \
	CODE(CUDA_ERROR_ILLEGAL_STATE, 401, "the call does not fit the state of the object")                             \
	CODE(CUDA_ERROR_NOT_FOUND, 500, "no such name")                                                                  \
	CODE(CUDA_ERROR_NOT_READY, 600, "not yet done")                                                                  \
	CODE(CUDA_ERROR_ILLEGAL_ADDRESS, 700, "a kernel accessed memory that is not its own")                            \
	CODE(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "the launch needs more than the device has")                       \
	CODE(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712, "the host memory is registered already")                    \
	CODE(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713, "the host memory is not registered")                            \
	CODE(CUDA_ERROR_HARDWARE_STACK_ERROR, 714, "a thread's stack overflowed")                                        \
	CODE(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715, "a kernel reached an illegal instruction")                             \
	CODE(CUDA_ERROR_MISALIGNED_ADDRESS, 716, "a kernel accessed a misaligned address")                               \
	CODE(CUDA_ERROR_LAUNCH_FAILED, 719, "a kernel failed")                                                           \
	CODE(CUDA_ERROR_NOT_SUPPORTED, 801, "not supported")                                                             \
	CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, "not allowed while a stream is being captured")                 \
	CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901, "an earlier error invalidated the capture")                     \
	CODE(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902, "the call would merge two captures")                                  \
	CODE(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903, "the capture began on another stream")                            \
	CODE(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904, "a captured stream did not rejoin the first stream")               \
	CODE(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905, "a captured stream would wait for work outside of its capture")   \
	CODE(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906, "the default stream would wait for a captured stream")             \
	CODE(CUDA_ERROR_CAPTURED_EVENT, 907, "the event belongs to a capture")                                           \
	CODE(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908, "the capture began on another thread")

enum Code : int {
#define CODE(name, value, text) name = value,
	EMU_CODES(CODE)
#undef CODE
};

struct Context {
	int error = 0;       // of a kernel; afterwards the context can only be destroyed
	unsigned flags = 0;
	int uses = 0;        // of the primary context
};

extern std::mutex driver;
extern bool initialised;
extern int arch;           // the compute capability, 90 for 9.0
extern int version;        // of the driver, 12090 for CUDA 12.9
extern int multiprocessors;
extern int launches_left;  // until the device is lost; -1: never

// The context that is current on this thread; null if none.
Context *current();
bool is_context(const Context *c);

void drop_modules(Context &c);

#define API extern "C" __attribute__((visibility("default"))) int

// A call that works without a context.
template <class F> int call(F f) {
	std::lock_guard<std::mutex> lock(driver);
	return initialised ? f() : CUDA_ERROR_NOT_INITIALIZED;
}

// A call that needs a current context without errors.
template <class F> int call_in_context(F f) {
	std::lock_guard<std::mutex> lock(driver);
	if (!initialised) return CUDA_ERROR_NOT_INITIALIZED;
	Context *c = current();
	if (c == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
	if (!is_context(c)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (c->error != 0) return c->error;
	return f(*c);
}

// The live objects of one kind, by handle.
template <class T> struct Handles {
	std::set<std::shared_ptr<T>> all;

	std::shared_ptr<T> find(const void *handle) const {
		std::shared_ptr<T> key(std::shared_ptr<T>(), static_cast<T *>(const_cast<void *>(handle)));
		auto i = all.find(key);
		return i == all.end() ? nullptr : *i;
	}
	T *add(std::shared_ptr<T> object) { return all.insert(std::move(object)).first->get(); }
	void remove(const std::shared_ptr<T> &object) { all.erase(object); }
};

}  // namespace emu
