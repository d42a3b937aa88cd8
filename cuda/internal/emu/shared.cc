// The shared arrays of a block, and the recorded accesses of checked arrays.
#include "shared.h"

#include <string.h>
#include <algorithm>
#include "driver.h"
#include "fault.h"
#include "memory.h"
#include "worker.h"

namespace emu {

Array *Worker::array_of(const Declaration &declaration) {
	for (Array *a : block_arrays_)
		if (a->declaration == &declaration) return a;

	size_t bytes = declaration.element * declaration.count;
	shared_used_ += (bytes + 15) / 16 * 16;
	if (shared_used_ > shared_bytes) {
		fail(CUDA_ERROR_LAUNCH_FAILED, "%s[%zu] (%s:%d) raises the shared memory of the block to %zu bytes; the limit is %zu", declaration.name, declaration.count,
		     base_name(declaration.at.file), declaration.at.line, shared_used_, shared_bytes);
	}
	auto found = std::find_if(arrays_.begin(), arrays_.end(), [&](const auto &a) { return a->declaration == &declaration; });
	if (found == arrays_.end()) {
		arrays_.push_back(std::make_unique<Array>());
		found = arrays_.end() - 1;
		**found = Array{&declaration, static_cast<char *>(aligned_alloc(64, (bytes + 63) / 64 * 64)), nullptr};
		if (declaration.checked) (*found)->history = new History[declaration.count];
	}
	if (declaration.checked) poison((*found)->data, bytes);
	block_arrays_.push_back(found->get());
	return found->get();
}

Array *array_of(const Declaration &declaration) { return worker->array_of(declaration); }

void misaligned(const char *what, long long index, Site at) {
	fail(CUDA_ERROR_MISALIGNED_ADDRESS, "%s (%s:%d) of element %lld, which is not aligned", what, base_name(at.file), at.line, index);
}

static unsigned epoch(Access a) { return unsigned(a >> 32); }
static unsigned warp_epoch(Access a) { return unsigned(a >> 12) & 0xfffff; }
static int thread(Access a) { return int(a & 0x7ff) - 1; }
static int warp(Access a) { return thread(a) / 32; }

// Two accesses of different threads are ordered if a __syncthreads lies between them,
// or a __syncwarp when their warp is the same.
static bool races(Access earlier, Access now) {
	if (earlier == 0 || epoch(earlier) != epoch(now) || thread(earlier) == thread(now)) return false;
	return warp(earlier) != warp(now) || warp_epoch(earlier) == warp_epoch(now);
}

[[noreturn]] static void race(const Array *array, long long index, const char *does, Access earlier, const char *did) {
	fail(CUDA_ERROR_LAUNCH_FAILED, "%s %s[%lld], which thread %s %s without a barrier in between", does, array->declaration->name, index,
	     thread_name(unsigned(thread(earlier))).c_str(), earlier & atomic_bit ? "changed atomically" : did);
}

static History &record_of(Array *array, long long index, const char *does) {
	const Declaration &d = *array->declaration;
	if (size_t(index) >= d.count) {
		fail(CUDA_ERROR_ILLEGAL_ADDRESS, "%s %s[%lld], which has %zu elements (%s:%d)", does, d.name, index, d.count, base_name(d.at.file), d.at.line);
	}
	return array->history[index];
}

void *note_read(Array *array, long long index) {
	History &h = record_of(array, index, "reads");
	Access now = view.now, &a = h.readers[0], &b = h.readers[1];
	if (races(h.writer, now)) race(array, index, "reads", h.writer, "wrote");
	// Keep two reads of different warps if there are any, otherwise the last two reads: a
	// write that is not ordered after every read is not ordered after these two.
	if (a == 0 || epoch(a) != epoch(now)) {
		a = now;
		b = 0;
	} else if (thread(a) == thread(now)) {
		a = now;
	} else if (b == 0 || thread(b) == thread(now)) {
		b = now;
	} else if (warp(a) == warp(b)) {
		if (warp(now) != warp(a) || warp_epoch(a) != warp_epoch(now)) a = now;
		else if (warp_epoch(b) != warp_epoch(now)) b = now;
	}
	return array->data + index * (long long)array->declaration->element;
}

void *note_write(Array *array, long long index) {
	History &h = record_of(array, index, "writes");
	if (races(h.writer, view.now)) race(array, index, "writes", h.writer, "wrote");
	for (Access reader : h.readers)
		if (races(reader, view.now)) race(array, index, "writes", reader, "read");
	h = History{view.now, {0, 0}};
	return array->data + index * (long long)array->declaration->element;
}

void *note_atomic(Array *array, long long index) {
	History &h = record_of(array, index, "changes");
	if (!(h.writer & atomic_bit) && races(h.writer, view.now)) race(array, index, "changes atomically", h.writer, "wrote");
	for (Access reader : h.readers)
		if (races(reader, view.now)) race(array, index, "changes atomically", reader, "read");
	h = History{view.now | atomic_bit, {0, 0}};
	return array->data + index * (long long)array->declaration->element;
}

}  // namespace emu
