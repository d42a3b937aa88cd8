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
static bool bytes;  // whether distinct bytes are counted, not requests

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

// Sectors are the numbers of sectors that were loaded and stored.
struct Sectors {
	std::vector<uint64_t> loaded, stored;

	void add(const Sectors &s) {
		loaded.insert(loaded.end(), s.loaded.begin(), s.loaded.end());
		stored.insert(stored.end(), s.stored.begin(), s.stored.end());
	}
	void clear() { loaded.clear(), stored.clear(); }
};

static void keep_distinct(std::vector<uint64_t> &sectors) {
	std::sort(sectors.begin(), sectors.end());
	sectors.erase(std::unique(sectors.begin(), sectors.end()), sectors.end());
}

struct Bytes {
	double launches = 0, loaded = 0, stored = 0;
};

static std::map<std::string, Bytes> &bytes_of = *new std::map<std::string, Bytes>;
static Sectors &launch_sectors = *new Sectors;
static thread_local Sectors *block_sectors;

void begin_traffic() {
	const char *name = getenv("DPTRAIN_EMU_BYTES");
	bytes = name != nullptr && *name != 0;
	if (!bytes) name = getenv("DPTRAIN_EMU_TRAFFIC");
	traffic = name != nullptr && *name != 0;
	if (traffic) file = name;
}

bool is_sampled(long long block, long long blocks) {
	return !traffic || bytes || blocks <= 3 || block == 0 || block == blocks / 2 || block == blocks - 2;
}

static void note_sector(Request request, uint64_t sector) {
	if (request != Request::load && request != Request::store) return;
	if (block_sectors == nullptr) block_sectors = new Sectors;
	std::vector<uint64_t> &to = request == Request::load ? block_sectors->loaded : block_sectors->stored;
	if (to.empty() || to.back() != sector) to.push_back(sector);
	if (to.size() == to.capacity() && to.size() > 1 << 16) keep_distinct(to);
}

void note_traffic(Request request, int line, uint64_t address, size_t size) {
	if (bytes) return note_sector(request, address / 32);
	if (parts == nullptr) parts = new std::vector<Part>;
	parts->push_back(Part{address, line, 0, view.id, request, uint8_t(size)});
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
	if (bytes) {
		if (block_sectors == nullptr) return;
		keep_distinct(block_sectors->loaded);
		keep_distinct(block_sectors->stored);
		std::lock_guard<std::mutex> lock(mutex);
		launch_sectors.add(*block_sectors);
		block_sectors->clear();
		return;
	}
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

void end_launch(const Kernel &kernel) {
	if (!bytes) return;
	std::lock_guard<std::mutex> lock(mutex);
	keep_distinct(launch_sectors.loaded);
	keep_distinct(launch_sectors.stored);
	Bytes &b = bytes_of[kernel.name];
	b.launches++;
	b.loaded += 32 * double(launch_sectors.loaded.size());
	b.stored += 32 * double(launch_sectors.stored.size());
	launch_sectors.clear();
}

static void write_bytes() {
	FILE *to = fopen(file.c_str(), "w");
	if (to == nullptr) return;
	fprintf(to, "kernel\tlaunches\tbytes loaded\tbytes stored\n");
	for (const auto &[name, b] : bytes_of) fprintf(to, "%s\t%.0f\t%.0f\t%.0f\n", name.c_str(), b.launches, b.loaded, b.stored);
	fclose(to);
}

// Kernels with the most traffic come first; within a kernel, the lines with the largest
// difference from the minimum.
void write_traffic() {
	std::lock_guard<std::mutex> lock(mutex);
	if (bytes) return write_bytes();
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
