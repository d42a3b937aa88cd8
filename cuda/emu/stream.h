// Streams run their work as late as a GPU may: when the host waits for it. So a host that
// reads a result too early, changes a page-locked buffer too early, or omits a dependency
// between streams gets wrong numbers here every time, not once a month. With
// CUDA_LAUNCH_BLOCKING=1 each call runs its work at once, which shows the faulty call.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>
#include "driver.h"

namespace emu {

// Work on the device; returns a code. It may be done more than once, by a graph.
using Operation = std::function<int()>;

struct Stream;

// The nodes of a capture that come right before a point of it, by number.
using Front = std::set<size_t>;

struct Node {
	Operation work;
	Front after;
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
	bool spoilt = false, ended = false;
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
	Front front;                // in the capture
	std::vector<void *> named;  // the nodes there as cuStreamGetCaptureInfo_v2 gave them

	bool blocking() const { return !null && (flags & 1) == 0; }
};

struct Event {
	Context *context;
	unsigned flags;
	std::shared_ptr<Stream> stream;  // null until recorded
	uint64_t ticket = 0;             // it happens when this much of the stream is done
	long long time = 0;
	std::shared_ptr<Capture> capture;
	Front front;
};

extern Handles<Stream> streams;
extern Handles<Event> events;
extern bool at_once;

// The stream of a handle, the default one for 0, 1 and 2; null if unknown.
std::shared_ptr<Stream> stream_of(Context &c, const void *handle);

// Adds work to a stream or to the graph that it is captured into.
int push(const std::shared_ptr<Stream> &s, Operation work);

// Does the work of a stream up to a point; returns the context's error.
int finish(const std::shared_ptr<Stream> &s, uint64_t ticket);
int finish(const std::shared_ptr<Stream> &s);
int finish_all(Context &c);

// Calls that wait or may wait are not allowed during a capture, and spoil it.
int refuse_in_capture();
int spoil(Capture &c, int code);

// Forgets the streams and events of a context.
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
