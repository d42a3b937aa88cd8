// Events: points of a stream that others can wait for.
#include <time.h>
#include "stream.h"

namespace emu {

API cuEventCreate(void **event, unsigned flags) {
	return call_in_context([&](Context &c) -> int {
		if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
		*event = events.add(std::make_shared<Event>(Event{&c, flags, nullptr, 0, 0, nullptr, {}}));
		return 0;
	});
}

API cuEventDestroy_v2(void *event) {
	return with_event(event, [](Context &, auto &e) -> int {
		events.remove(e);
		return 0;
	});
}

API cuEventRecord(void *event, void *stream) {
	return with_event(event, [&](Context &c, auto &e) -> int {
		std::shared_ptr<Stream> s = stream_of(c, stream);
		if (!s) return CUDA_ERROR_INVALID_HANDLE;
		e->capture = s->capture;
		if (s->capture) {
			e->stream = nullptr;
			e->frontier = s->frontier;
			return 0;
		}
		e->stream = s;
		int error = push(s, [weak = std::weak_ptr<Event>(e)] {
			timespec t;
			clock_gettime(CLOCK_MONOTONIC, &t);
			if (auto e = weak.lock()) e->time = t.tv_sec * 1000000000ll + t.tv_nsec;
			return 0;
		});
		e->position = s->pushed;
		return error;
	});
}

API cuEventSynchronize(void *event) {
	return with_event(event, [](Context &, auto &e) -> int {
		if (e->capture) return invalidate(*e->capture, CUDA_ERROR_CAPTURED_EVENT);
		return e->stream ? finish(e->stream, e->position) : 0;
	});
}

API cuEventQuery(void *event) {
	return with_event(event, [](Context &, auto &e) -> int {
		if (e->capture) return invalidate(*e->capture, CUDA_ERROR_CAPTURED_EVENT);
		if (!e->stream || e->stream->done >= e->position) return 0;
		int error = finish(e->stream, e->stream->done + 1);
		return error ? error : CUDA_ERROR_NOT_READY;
	});
}

API cuEventElapsedTime(float *milliseconds, void *begin, void *end) {
	return with_event(begin, [&](Context &, auto &b) -> int {
		std::shared_ptr<Event> e = events.find(end);
		constexpr unsigned without_time = 2;  // CU_EVENT_DISABLE_TIMING
		if (!e || !b->stream || !e->stream || ((b->flags | e->flags) & without_time)) return CUDA_ERROR_INVALID_HANDLE;
		if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
		if (b->stream->done < b->position || e->stream->done < e->position) return CUDA_ERROR_NOT_READY;
		*milliseconds = float(double(e->time - b->time) * 1e-6);
		return 0;
	});
}
API cuEventElapsedTime_v2(float *milliseconds, void *begin, void *end) { return cuEventElapsedTime(milliseconds, begin, end); }

}  // namespace emu
