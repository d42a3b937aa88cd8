// Captures and graphs. A graph is the captured work with the arguments of that time;
// each node runs after the nodes that it depends on. Nodes that do not depend on each
// other run in varying order, so that a graph that lacks a dependency gets wrong
// numbers.
#include <algorithm>
#include <random>
#include "stream.h"

namespace emu {

static Handles<Graph> graphs, executables;
static std::vector<std::weak_ptr<Capture>> captures;

enum Mode { global, thread_local_, relaxed };

int invalidate(Capture &c, int code) {
	c.invalidated = true;
	return code;
}

int refuse_in_capture() {
	int code = 0;
	captures.erase(std::remove_if(captures.begin(), captures.end(), [](const auto &c) { return c.expired() || c.lock()->ended; }), captures.end());
	for (const auto &weak : captures) {
		Capture &c = *weak.lock();
		if (c.mode == global || (c.mode == thread_local_ && c.thread == thread_number())) code = invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	}
	return code;
}

API cuStreamBeginCapture_v2(void *stream, int mode) {
	return with_stream(stream, [&](Context &, auto &s) -> int {
		if (s->null) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		if (s->capture) return CUDA_ERROR_ILLEGAL_STATE;
		if (mode < global || mode > relaxed) return CUDA_ERROR_INVALID_VALUE;
		s->capture = std::make_shared<Capture>(Capture{std::make_shared<Graph>(), s.get(), mode, thread_number(), {s}});
		s->frontier = {};
		captures.push_back(s->capture);
		return 0;
	});
}

// The nodes of a frontier and all nodes before them.
static Frontier all_before(const Graph &g, const Frontier &frontier) {
	Frontier all = frontier;
	for (size_t i = g.nodes.size(); i-- > 0;)
		if (all.count(i)) all.insert(g.nodes[i]->after.begin(), g.nodes[i]->after.end());
	return all;
}

API cuStreamEndCapture(void *stream, void **graph) {
	return with_stream(stream, [&](Context &, auto &s) -> int {
		std::shared_ptr<Capture> c = s->capture;
		if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
		*graph = nullptr;
		if (!c) return CUDA_ERROR_ILLEGAL_STATE;
		if (c->origin != s.get()) return invalidate(*c, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
		if (c->mode != relaxed && c->thread != thread_number()) return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
		Frontier before = all_before(*c->graph, s->frontier);
		bool joined = true;
		for (const auto &m : c->members) {
			joined = joined && std::includes(before.begin(), before.end(), m->frontier.begin(), m->frontier.end());
			m->capture = nullptr;
		}
		c->ended = true;
		if (c->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
		if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
		*graph = graphs.add(c->graph);
		return 0;
	});
}

API cuStreamIsCapturing(void *stream, int *status) {
	return with_stream(stream, [&](Context &, auto &s) -> int {
		if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
		*status = !s->capture ? 0 : s->capture->invalidated ? 2 : 1;
		return 0;
	});
}

API cuStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *, void **, void *const **nodes, size_t *count) {
	return with_stream(stream, [&](Context &, auto &s) -> int {
		if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
		*status = !s->capture ? 0 : s->capture->invalidated ? 2 : 1;
		if (*status != 1) return 0;
		s->named.clear();
		for (size_t i : s->frontier) s->named.push_back(const_cast<Node *>(s->capture->graph->nodes[i].get()));
		if (nodes != nullptr) *nodes = s->named.data();
		if (count != nullptr) *count = s->named.size();
		return 0;
	});
}

API cuStreamUpdateCaptureDependencies(void *stream, void **nodes, size_t count, unsigned flags) {
	return with_stream(stream, [&](Context &, auto &s) -> int {
		if (flags > 1 || (nodes == nullptr && count > 0)) return CUDA_ERROR_INVALID_VALUE;
		if (!s->capture) return CUDA_ERROR_ILLEGAL_STATE;
		if (s->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
		const auto &known = s->capture->graph->nodes;
		Frontier frontier;
		for (size_t i = 0; i < count; i++) {
			auto at = std::find_if(known.begin(), known.end(), [&](const auto &n) { return n.get() == nodes[i]; });
			if (at == known.end()) return CUDA_ERROR_INVALID_VALUE;
			if (!frontier.insert(at - known.begin()).second) return CUDA_ERROR_INVALID_VALUE;
		}
		if (flags == 0) frontier.insert(s->frontier.begin(), s->frontier.end());
		s->frontier = frontier;
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

// Runs a graph in an order that its dependencies allow. The first run prefers the nodes
// that were captured last; later runs use an order that the run's number selects.
static int run(const Graph &g, uint64_t number) {
	std::minstd_rand random(static_cast<unsigned>(number) + 1);
	std::vector<size_t> wait(g.nodes.size()), ready;
	std::vector<std::vector<size_t>> next(g.nodes.size());
	for (size_t i = 0; i < g.nodes.size(); i++) {
		wait[i] = g.nodes[i]->after.size();
		for (size_t before : g.nodes[i]->after) next[before].push_back(i);
		if (wait[i] == 0) ready.push_back(i);
	}
	while (!ready.empty()) {
		auto at = number == 0 ? std::max_element(ready.begin(), ready.end()) : ready.begin() + long(random() % ready.size());
		size_t i = *at;
		ready.erase(at);
		if (int error = g.nodes[i]->work()) return error;
		for (size_t after : next[i])
			if (--wait[after] == 0) ready.push_back(after);
	}
	return 0;
}

API cuGraphLaunch(void *executable, void *stream) {
	return with_stream(stream, [&](Context &, auto &s) -> int {
		std::shared_ptr<Graph> g = executables.find(executable);
		if (!g) return CUDA_ERROR_INVALID_HANDLE;
		return push(s, [g] { return run(*g, g->runs++); });
	});
}

API cuGraphGetNodes(void *graph, void **nodes, size_t *count) {
	return call_in_context([&](Context &) -> int {
		std::shared_ptr<Graph> g = graphs.find(graph);
		if (!g) return CUDA_ERROR_INVALID_HANDLE;
		if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
		for (size_t i = 0; nodes != nullptr && i < *count && i < g->nodes.size(); i++) nodes[i] = const_cast<Node *>(g->nodes[i].get());
		*count = g->nodes.size();
		return 0;
	});
}

API cuGraphGetEdges(void *graph, void **from, void **to, size_t *count) {
	return call_in_context([&](Context &) -> int {
		std::shared_ptr<Graph> g = graphs.find(graph);
		if (!g) return CUDA_ERROR_INVALID_HANDLE;
		if (count == nullptr || (from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
		if (getenv("DPTRAIN_EMU_LOSSY_EDGES") != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
		size_t edges = 0;
		for (const auto &node : g->nodes)
			for (size_t before : node->after) {
				if (from != nullptr && edges < *count) {
					from[edges] = const_cast<Node *>(g->nodes[before].get());
					to[edges] = const_cast<Node *>(node.get());
				}
				edges++;
			}
		*count = edges;
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
