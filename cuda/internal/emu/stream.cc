#include "stream.h"

#include <algorithm>
#include <atomic>
#include "grid.h"
#include "traffic.h"

namespace emu {

Handles<Stream> streams;
Handles<Event> events;
bool blocking_launches;

static std::map<Context *, std::shared_ptr<Stream>> null_streams;
static uint64_t count;
static __thread bool on_device_thread;

uint64_t thread_number() {
	static std::atomic<uint64_t> threads;
	static thread_local uint64_t number = ++threads;
	return number;
}

static std::shared_ptr<Stream> null_stream(Context &c) {
	std::shared_ptr<Stream> &s = null_streams[&c];
	if (!s) s = std::make_shared<Stream>(Stream{&c, 0, 0, true, 0, {}, 0, 0, nullptr, {}, {}});
	return s;
}

std::shared_ptr<Stream> stream_of(Context &c, const void *handle) {
	if (uintptr_t(handle) <= 2) return null_stream(c);
	return streams.find(handle);
}

// The streams of a context in the order of creation.
static std::vector<std::shared_ptr<Stream>> streams_of(const Context &c) {
	std::vector<std::shared_ptr<Stream>> of;
	for (const auto &s : streams.all)
		if (s->context == &c) of.push_back(s);
	std::sort(of.begin(), of.end(), [](const auto &a, const auto &b) { return a->number < b->number; });
	return of;
}

static void enqueue(Stream &s, Operation work) {
	s.pending.push_back(std::make_shared<const Operation>(std::move(work)));
	s.pushed++;
}

static void enqueue_wait(Stream &s, const std::shared_ptr<Stream> &other, uint64_t position) {
	if (other.get() == &s || other->done >= position) return;
	enqueue(s, [other, position] { return finish(other, position); });
}

int push(const std::shared_ptr<Stream> &s, Operation work) {
	Context &c = *s->context;
	if (s->capture) {
		if (s->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
		auto &nodes = s->capture->graph->nodes;
		nodes.push_back(std::make_shared<const Node>(Node{std::move(work), s->frontier}));
		s->frontier = {nodes.size() - 1};
		return 0;
	}
	// The default stream and the others wait for each other, except streams that were
	// created as CU_STREAM_NON_BLOCKING.
	if (s->null) {
		for (const auto &other : streams_of(c)) {
			if (!other->blocking()) continue;
			if (other->capture) return invalidate(*other->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
			enqueue_wait(*s, other, other->pushed);
		}
	} else if (s->blocking()) {
		std::shared_ptr<Stream> null = null_stream(c);
		enqueue_wait(*s, null, null->pushed);
	}
	enqueue(*s, std::move(work));
	// A driver, too, makes the host wait when this much work is pending.
	constexpr size_t max_pending = 1024;
	return blocking_launches || s->pending.size() >= max_pending ? finish(s) : 0;
}

static void run_pending(Stream &s, uint64_t position) {
	while (s.done < position && !s.pending.empty()) {
		std::shared_ptr<const Operation> work = s.pending.front();
		s.pending.pop_front();
		s.done++;
		if (s.context->error != 0) continue;
		int error = (*work)();
		if (error != 0 && s.context->error == 0) s.context->error = error;
	}
}

int finish(const std::shared_ptr<Stream> &s, uint64_t position) {
	if (s->done >= position) return s->context->error;
	if (on_device_thread) {
		run_pending(*s, position);
	} else {
		on_device([&] {
			on_device_thread = true;
			run_pending(*s, position);
		});
		if (traffic) write_traffic();
	}
	return s->context->error;
}

int finish(const std::shared_ptr<Stream> &s) { return finish(s, s->pushed); }

int finish_all(Context &c) {
	finish(null_stream(c));
	for (const auto &s : streams_of(c)) finish(s);
	return c.error;
}

void drop_streams(Context &c) {
	for (const auto &s : streams_of(c)) streams.remove(s);
	null_streams.erase(&c);
	for (auto i = events.all.begin(); i != events.all.end();) i = (*i)->context == &c ? events.all.erase(i) : std::next(i);
}

API cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
	return call_in_context([&](Context &c) -> int {
		if (stream == nullptr || flags > 1) return CUDA_ERROR_INVALID_VALUE;
		*stream = streams.add(std::make_shared<Stream>(Stream{&c, flags, priority, false, ++count, {}, 0, 0, nullptr, {}, {}}));
		return 0;
	});
}
API cuStreamCreate(void **stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

API cuStreamDestroy_v2(void *stream) {
	return with_stream(stream, [](Context &, auto &s) -> int {
		if (s->null) return CUDA_ERROR_INVALID_HANDLE;
		if (s->capture) return invalidate(*s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		int error = finish(s);
		streams.remove(s);
		return error;
	});
}

API cuStreamSynchronize(void *stream) {
	return with_stream(stream, [](Context &, auto &s) -> int {
		if (s->capture) return invalidate(*s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		return finish(s);
	});
}

// Each query runs one piece of work, so that a host that polls in a loop makes progress.
API cuStreamQuery(void *stream) {
	return with_stream(stream, [](Context &, auto &s) -> int {
		if (s->capture) return invalidate(*s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		if (s->done == s->pushed) return 0;
		int error = finish(s, s->done + 1);
		return error ? error : CUDA_ERROR_NOT_READY;
	});
}

API cuStreamGetFlags(void *stream, unsigned *flags) {
	return with_stream(stream, [&](Context &, auto &s) -> int {
		if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
		*flags = s->flags;
		return 0;
	});
}

API cuStreamGetPriority(void *stream, int *priority) {
	return with_stream(stream, [&](Context &, auto &s) -> int {
		if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
		*priority = s->priority;
		return 0;
	});
}

API cuStreamWaitEvent(void *stream, void *event, unsigned) {
	return with_stream(stream, [&](Context &, auto &s) -> int {
		std::shared_ptr<Event> e = events.find(event);
		if (!e) return CUDA_ERROR_INVALID_HANDLE;
		if (e->capture && e->capture->ended) return CUDA_ERROR_CAPTURED_EVENT;
		if (e->capture) {
			// A stream that waits for an event of a capture takes part in it from then
			// on.
			if (s->null) return invalidate(*e->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
			if (s->capture && s->capture != e->capture) return invalidate(*s->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
			if (!s->capture) {
				s->capture = e->capture;
				s->frontier = {};
				e->capture->members.push_back(s);
			}
			s->frontier.insert(e->frontier.begin(), e->frontier.end());
			return 0;
		}
		if (s->capture) return invalidate(*s->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
		if (e->stream) enqueue_wait(*s, e->stream, e->position);
		return 0;
	});
}

}  // namespace emu
