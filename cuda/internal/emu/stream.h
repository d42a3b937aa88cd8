// Streams run their work as late as a GPU may: when the host waits for it. A host that
// reads a result too early, changes a page-locked buffer too early, or omits a
// dependency between streams therefore gets wrong numbers here every time; on a GPU it
// would happen rarely. With CUDA_LAUNCH_BLOCKING=1 each call runs its work immediately,
// which shows the faulty call.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>
#include "driver.h"

namespace emu {

// Work on the device; returns a code. A graph may run it more than once.
using Operation = std::function<int()>;

struct Stream;

// The nodes that directly precede a point of a capture, by number.
using Frontier = std::set<size_t>;

struct Node {
	Operation work;
	Frontier after;
};

struct Graph {
	std::vector<std::shared_ptr<const Node>> nodes;
	uint64_t runs = 0;
};

struct Capture {
	std::shared_ptr<Graph> graph;
	const Stream *origin;
	int mode;
	uint64_t thread;
	std::vector<std::shared_ptr<Stream>> members;
	bool invalidated = false, ended = false;
};

struct Stream {
	Context *context;
	unsigned flags;
	int priority;
	bool null;  // the default stream of its context
	uint64_t number;
	std::deque<std::shared_ptr<const Operation>> pending;
	uint64_t pushed = 0, done = 0;
	std::shared_ptr<Capture> capture;
	Frontier frontier;            // in the capture
	std::vector<void *> named;  // the same nodes, as cuStreamGetCaptureInfo_v2 returned them

	bool blocking() const { return !null && (flags & 1) == 0; }
};

struct Event {
	Context *context;
	unsigned flags;
	std::shared_ptr<Stream> stream;  // null until recorded
	uint64_t position = 0;             // in the stream: the event happens when all work before it is done
	long long time = 0;
	std::shared_ptr<Capture> capture;
	Frontier frontier;
};

extern Handles<Stream> streams;
extern Handles<Event> events;
extern bool blocking_launches;

// The stream of a handle, the default one for 0, 1 and 2; null if unknown.
std::shared_ptr<Stream> stream_of(Context &c, const void *handle);

// Adds work to a stream or to the graph that it is captured into.
int push(const std::shared_ptr<Stream> &s, Operation work);

// Runs the work of a stream up to a position; returns the context's error.
int finish(const std::shared_ptr<Stream> &s, uint64_t position);
int finish(const std::shared_ptr<Stream> &s);
int finish_all(Context &c);

// Calls that wait or may wait are not allowed during a capture, and invalidate it.
int refuse_in_capture();
int invalidate(Capture &c, int code);

// Removes the streams and events of a context.
void drop_streams(Context &c);

uint64_t thread_number();

// Calls about a stream or an event.
template <class F> int with_stream(const void *handle, F f) {
	return call_in_context([&](Context &c) -> int {
		std::shared_ptr<Stream> s = stream_of(c, handle);
		return s ? f(c, s) : CUDA_ERROR_INVALID_HANDLE;
	});
}
template <class F> int with_event(const void *handle, F f) {
	return call_in_context([&](Context &c) -> int {
		std::shared_ptr<Event> e = events.find(handle);
		return e ? f(c, e) : CUDA_ERROR_INVALID_HANDLE;
	});
}

}  // namespace emu
