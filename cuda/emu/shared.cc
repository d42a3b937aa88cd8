// The arrays of a block, and what is known of the elements of checked ones.
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
		fail(CUDA_ERROR_LAUNCH_FAILED, "%s[%zu] (%s:%d) brings the block to %zu bytes of shared memory; there are %zu", declaration.name, declaration.count,
		     base_name(declaration.at.file), declaration.at.line, shared_used_, shared_bytes);
	}
	auto known = std::find_if(arrays_.begin(), arrays_.end(), [&](const auto &a) { return a->declaration == &declaration; });
	if (known == arrays_.end()) {
		arrays_.push_back(std::make_unique<Array>());
		known = arrays_.end() - 1;
		**known = Array{&declaration, static_cast<char *>(aligned_alloc(64, (bytes + 63) / 64 * 64)), nullptr};
		if (declaration.checked) (*known)->history = new History[declaration.count];
	}
	if (declaration.checked) poison((*known)->data, bytes);
	block_arrays_.push_back(known->get());
	return known->get();
}

Array *array_of(const Declaration &declaration) { return worker->array_of(declaration); }

void misaligned(const char *what, long long index, Site at) {
	fail(CUDA_ERROR_MISALIGNED_ADDRESS, "%s (%s:%d) of element %lld, which is not aligned", what, base_name(at.file), at.line, index);
}

// Two accesses of different threads are ordered if a __syncthreads lies between them,
// or a __syncwarp when their warp is the same.
static bool races(const Access &earlier) {
	if (earlier.thread < 0 || earlier.epoch != view.epoch || earlier.thread == int(view.id)) return false;
	return earlier.thread / 32 != int(view.id) / 32 || earlier.warp_epoch == view.warp_epoch;
}

static Access now() { return Access{view.epoch, view.warp_epoch, int(view.id)}; }

[[noreturn]] static void race(const Array *array, long long index, const char *does, const Access &earlier, const char *did) {
	fail(CUDA_ERROR_LAUNCH_FAILED, "%s %s[%lld], which thread %s %s with no barrier between", does, array->declaration->name, index,
	     thread_name(unsigned(earlier.thread)).c_str(), did);
}

static History &inside(Array *array, long long index, const char *does) {
	const Declaration &d = *array->declaration;
	if (index < 0 || index >= (long long)d.count) {
		fail(CUDA_ERROR_ILLEGAL_ADDRESS, "%s %s[%lld], which has %zu elements (%s:%d)", does, d.name, index, d.count, base_name(d.at.file), d.at.line);
	}
	return array->history[index];
}

void *note_read(Array *array, long long index) {
	History &h = inside(array, index, "reads");
	if (races(h.writer)) race(array, index, "reads", h.writer, h.atomic ? "changed atomically" : "wrote");
	// Of the readers, keep two of different warps if there are such, else the two that
	// read last: any write that is not ordered after all is not ordered after these.
	Access me = now(), *a = &h.readers[0], *b = &h.readers[1];
	if (a->epoch != me.epoch) *a = *b = Access{};
	if (a->thread == me.thread || a->thread < 0) {
		*a = me;
	} else if (b->thread == me.thread || b->thread < 0) {
		*b = me;
	} else if (a->thread / 32 == b->thread / 32) {
		if (me.thread / 32 != a->thread / 32) *a = me;
		else if (a->warp_epoch != me.warp_epoch) *a = me;
		else if (b->warp_epoch != me.warp_epoch) *b = me;
	}
	return array->data + index * array->declaration->element;
}

void *note_write(Array *array, long long index) {
	History &h = inside(array, index, "writes");
	if (races(h.writer)) race(array, index, "writes", h.writer, h.atomic ? "changed atomically" : "wrote");
	for (Access &reader : h.readers)
		if (races(reader)) race(array, index, "writes", reader, "read");
	h = History{now(), {}, false};
	return array->data + index * array->declaration->element;
}

void *note_atomic(Array *array, long long index) {
	History &h = inside(array, index, "changes");
	if (!h.atomic && races(h.writer)) race(array, index, "changes atomically", h.writer, "wrote");
	for (Access &reader : h.readers)
		if (races(reader)) race(array, index, "changes atomically", reader, "read");
	h = History{now(), {}, true};
	return array->data + index * array->declaration->element;
}

}  // namespace emu
