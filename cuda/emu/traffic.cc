#include "traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>
#include "thread.h"

namespace emu {

bool traffic;

// A thread's part of a request. Requests of a warp are distinguished by the line and by
// the number of earlier requests of the same lane at this line.
struct Part {
	uint64_t address;
	int line;
	unsigned turn, thread;
	Request request;
	uint8_t bytes;
};

struct Count {
	double requests = 0, actual = 0, minimum = 0;
};

struct SourceLine {
	std::string kernel;
	int line;
	Request request;
	bool operator<(const SourceLine &p) const { return std::tie(kernel, line, request) < std::tie(p.kernel, p.line, p.request); }
};

static std::mutex mutex;
static std::map<SourceLine, Count> &counts = *new std::map<SourceLine, Count>;  // never destroyed: threads may use it until the process ends
static std::string &file = *new std::string;
static thread_local std::vector<Part> *parts;  // of the block that runs

void begin_traffic() {
	const char *name = getenv("DPTRAIN_EMU_TRAFFIC");
	traffic = name != nullptr && *name != 0;
	if (traffic) file = name;
}

bool is_sampled(long long block, long long blocks) {
	return !traffic || blocks <= 3 || block == 0 || block == blocks / 2 || block == blocks - 2;
}

void note_traffic(Request request, int line, uint64_t address, size_t bytes) {
	if (parts == nullptr) parts = new std::vector<Part>;
	parts->push_back(Part{address, line, 0, view.id, request, uint8_t(bytes)});
}

// sectors adds the sectors of a request to global memory.
static void sectors(Count &c, const Part *begin, const Part *end, double blocks) {
	std::set<uint64_t> words, touched;
	for (const Part *p = begin; p != end; p++)
		for (int b = 0; b < p->bytes; b += 4) {
			words.insert((p->address + b) / 4);
			touched.insert((p->address + b) / 32);
		}
	c.actual += blocks * double(touched.size());
	c.minimum += blocks * double((words.size() + 7) / 8);
}

// passes adds the passes of a request to shared memory: lanes that access 128 bytes
// together are served in one pass if they have no bank conflict.
static void passes(Count &c, const Part *begin, const Part *end, double blocks) {
	std::map<unsigned, std::map<uint64_t, std::set<uint64_t>>> words;  // by group and bank
	for (const Part *p = begin; p != end; p++)
		for (int b = 0; b < p->bytes; b += 4) words[p->thread % 32 / (128 / p->bytes)][(p->address + b) / 4 % 32].insert((p->address + b) / 4);
	for (const auto &[group, banks] : words) {
		size_t most = 0;
		for (const auto &[bank, of] : banks) most = std::max(most, of.size());
		c.actual += blocks * double(most);
		c.minimum += blocks;
	}
}

void count_traffic(const Kernel &kernel, double blocks) {
	if (parts == nullptr) return;
	auto sort = [](auto key) {
		std::stable_sort(parts->begin(), parts->end(), [key](const Part &a, const Part &b) { return key(a) < key(b); });
	};
	sort([](const Part &p) { return std::make_tuple(p.thread, p.line); });
	const Part *last = nullptr;
	for (Part &p : *parts) {
		if (last != nullptr && last->thread == p.thread && last->line == p.line) p.turn = last->turn + 1;
		last = &p;
	}
	auto warp = [](const Part &p) { return std::make_tuple(p.thread / 32, p.line, p.turn); };
	sort(warp);
	std::lock_guard<std::mutex> lock(mutex);
	const Part *end = parts->data() + parts->size();
	for (const Part *p = parts->data(), *next; p != end; p = next) {
		for (next = p; next != end && warp(*next) == warp(*p);) next++;
		Count &c = counts[SourceLine{kernel.name, p->line, p->request}];
		c.requests += blocks;
		(p->request == Request::load || p->request == Request::store ? sectors : passes)(c, p, next, blocks);
	}
	parts->clear();
}

// Kernels with the most traffic come first; within a kernel, the lines with the largest
// difference from the minimum.
void write_traffic() {
	std::lock_guard<std::mutex> lock(mutex);
	std::map<std::string, double> total;
	for (const auto &[place, c] : counts) total[place.kernel] += c.actual;
	std::vector<std::pair<SourceLine, Count>> rows(counts.begin(), counts.end());
	std::sort(rows.begin(), rows.end(), [&](const auto &a, const auto &b) {
		return std::make_tuple(-total[a.first.kernel], a.first.kernel, a.second.minimum - a.second.actual) <
		       std::make_tuple(-total[b.first.kernel], b.first.kernel, b.second.minimum - b.second.actual);
	});
	FILE *to = fopen(file.c_str(), "w");
	if (to == nullptr) return;
	static const char *names[] = {"load", "store", "load shared", "store shared"};
	fprintf(to, "kernel\tline\trequest\tcount\tsectors or passes\tminimum\n");
	for (const auto &[place, c] : rows) fprintf(to, "%s\t%d\t%s\t%.0f\t%.0f\t%.0f\n", place.kernel.c_str(), place.line, names[int(place.request)], c.requests, c.actual, c.minimum);
	fclose(to);
}

}  // namespace emu
