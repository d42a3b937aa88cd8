// Captures and graphs. A graph is the captured work in the order in which it was
// captured, with the arguments that it had then.
#include <algorithm>
#include "stream.h"

namespace emu {

static Handles<Graph> graphs, executables;
static std::vector<std::weak_ptr<Capture>> captures;

enum Mode { global, thread_local_, relaxed };

int spoil(Capture &c, int code) {
	c.spoilt = true;
	return code;
}

int refuse_in_capture() {
	int code = 0;
	captures.erase(std::remove_if(captures.begin(), captures.end(), [](const auto &c) { return c.expired() || c.lock()->ended; }), captures.end());
	for (const auto &weak : captures) {
		Capture &c = *weak.lock();
		if (c.mode == global || (c.mode == thread_local_ && c.thread == thread_number())) code = spoil(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	}
	return code;
}

API cuStreamBeginCapture_v2(void *stream, int mode) {
	return with_stream(stream, [&](Context &, auto &s) -> int {
		if (s->null) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		if (s->capture) return CUDA_ERROR_ILLEGAL_STATE;
		if (mode < global || mode > relaxed) return CUDA_ERROR_INVALID_VALUE;
		s->capture = std::make_shared<Capture>(Capture{std::make_shared<Graph>(), s.get(), mode, thread_number(), {s}});
		s->clock = {};
		captures.push_back(s->capture);
		return 0;
	});
}

API cuStreamEndCapture(void *stream, void **graph) {
	return with_stream(stream, [&](Context &, auto &s) -> int {
		std::shared_ptr<Capture> c = s->capture;
		if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
		*graph = nullptr;
		if (!c) return CUDA_ERROR_ILLEGAL_STATE;
		if (c->origin != s.get()) return spoil(*c, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
		if (c->mode != relaxed && c->thread != thread_number()) return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
		bool joined = true;
		for (const auto &m : c->members) {
			joined = joined && (m == s || s->clock[m.get()] == m->clock[m.get()]);
			m->capture = nullptr;
		}
		c->ended = true;
		if (c->spoilt) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
		if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
		*graph = graphs.add(c->graph);
		return 0;
	});
}

API cuStreamIsCapturing(void *stream, int *status) {
	return with_stream(stream, [&](Context &, auto &s) -> int {
		if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
		*status = !s->capture ? 0 : s->capture->spoilt ? 2 : 1;
		return 0;
	});
}

API cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long) {
	return call_in_context([&](Context &) -> int {
		std::shared_ptr<Graph> g = graphs.find(graph);
		if (!g) return CUDA_ERROR_INVALID_HANDLE;
		if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
		*executable = executables.add(std::make_shared<Graph>(*g));
		return 0;
	});
}
API cuGraphInstantiate_v2(void **executable, void *graph, void **, char *, size_t) { return cuGraphInstantiateWithFlags(executable, graph, 0); }

API cuGraphLaunch(void *executable, void *stream) {
	return with_stream(stream, [&](Context &, auto &s) -> int {
		std::shared_ptr<Graph> g = executables.find(executable);
		if (!g) return CUDA_ERROR_INVALID_HANDLE;
		return push(s, [g] {
			for (const auto &node : g->nodes)
				if (int error = (*node)()) return error;
			return 0;
		});
	});
}

API cuGraphGetNodes(void *graph, void **nodes, size_t *count) {
	return call_in_context([&](Context &) -> int {
		std::shared_ptr<Graph> g = graphs.find(graph);
		if (!g) return CUDA_ERROR_INVALID_HANDLE;
		if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
		for (size_t i = 0; nodes != nullptr && i < *count && i < g->nodes.size(); i++) nodes[i] = const_cast<Operation *>(g->nodes[i].get());
		*count = g->nodes.size();
		return 0;
	});
}

static int destroy(Handles<Graph> &of, void *handle) {
	return call_in_context([&](Context &) -> int {
		std::shared_ptr<Graph> g = of.find(handle);
		if (!g) return CUDA_ERROR_INVALID_HANDLE;
		of.remove(g);
		return 0;
	});
}
API cuGraphDestroy(void *graph) { return destroy(graphs, graph); }
API cuGraphExecDestroy(void *executable) { return destroy(executables, executable); }

}  // namespace emu
