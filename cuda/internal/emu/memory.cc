#include "memory.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <deque>
#include <map>
#include "driver.h"
#include "fault.h"

namespace emu {

// Large enough that an index that is wrong by a row or two is inside the margin.
constexpr size_t margin = 1 << 20;

// The last freed allocations stay inaccessible, so that a late access faults.
constexpr size_t max_freed = 1024;

static std::map<char *, Allocation> allocations;  // by begin
static std::deque<char *> freed;
static std::map<char *, size_t> registered;
static size_t total = size_t(2) << 30, used;
static int count;

size_t memory_total() { return total; }
size_t memory_free() { return total > used ? total - used : 0; }
void set_memory_total(size_t bytes) { total = bytes; }

static size_t page() {
	static const size_t bytes = size_t(sysconf(_SC_PAGESIZE));
	return bytes;
}

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

void poison(void *p, size_t bytes) {
	char *c = static_cast<char *>(p);
	size_t words = bytes / 4;
	for (size_t i = 0; i < words; i++) memcpy(c + 4 * i, &poison_word, 4);
	memcpy(c + 4 * words, &poison_word, bytes % 4);
}

static bool poisoned(const char *p, size_t bytes) {
	for (size_t i = 0; i < bytes; i++)
		if (uint8_t(p[i]) != uint8_t(poison_word >> (8 * (i % 4)))) return false;
	return true;
}

char *allocate(Kind kind, size_t bytes, void *owner) {
	size_t charge = round_up(bytes, 512);
	if (kind == Kind::device && charge > memory_free()) return nullptr;
	if (bytes > SIZE_MAX / 2) return nullptr;
	size_t body = round_up(bytes, page()), reserved = body + 2 * margin;
	void *memory = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED) return nullptr;
	char *mapping = static_cast<char *>(memory), *pages = mapping + margin;
	if (mprotect(pages, body, PROT_READ | PROT_WRITE) != 0) {
		munmap(memory, reserved);
		return nullptr;
	}
	poison(pages, body);
	char *begin = pages + body - round_up(bytes, 16);
	allocations[begin] = Allocation{kind, begin, bytes, mapping, reserved, owner, ++count, false};
	if (kind == Kind::device) used += charge;
	return begin;
}

static void unmap(char *begin) {
	auto a = allocations.find(begin);
	munmap(a->second.mapping, a->second.mapping_bytes);
	allocations.erase(a);
}

static void free_one(Allocation &a) {
	check_edges(&a, "a launch since it was allocated");
	if (a.kind == Kind::device) used -= round_up(a.bytes, 512);
	a.freed = true;
	mmap(a.mapping, a.mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	freed.push_back(a.begin);
	if (freed.size() > max_freed) {
		unmap(freed.front());
		freed.pop_front();
	}
}

bool release(Kind kind, void *begin) {
	auto a = allocations.find(static_cast<char *>(begin));
	if (a == allocations.end() || a->second.kind != kind || a->second.freed) return false;
	free_one(a->second);
	return true;
}

void release_all(void *owner) {
	std::deque<Allocation *> owned;
	for (auto &[begin, a] : allocations)
		if (a.owner == owner && !a.freed) owned.push_back(&a);
	for (Allocation *a : owned) free_one(*a);
}

// The allocation whose mapping, with the pages around it, contains p.
static const Allocation *allocation_near(const char *p) {
	auto a = allocations.upper_bound(const_cast<char *>(p));
	if (a != allocations.end() && a->second.mapping <= p) return &a->second;
	if (a == allocations.begin()) return nullptr;
	a--;
	return p < a->second.mapping + a->second.mapping_bytes ? &a->second : nullptr;
}

const Allocation *allocation_of(Kind kind, const void *p, size_t bytes) {
	const char *c = static_cast<const char *>(p);
	const Allocation *a = allocation_near(c);
	if (a == nullptr || a->kind != kind || a->freed || c < a->begin || c > a->begin + a->bytes) return nullptr;
	return size_t(a->begin + a->bytes - c) >= bytes ? a : nullptr;
}

bool register_host(void *p, size_t bytes) { return registered.emplace(static_cast<char *>(p), bytes).second; }
bool unregister_host(void *p) { return registered.erase(static_cast<char *>(p)) == 1; }

bool page_locked(const void *p, size_t bytes) {
	if (allocation_of(Kind::host, p, bytes) != nullptr) return true;
	const char *c = static_cast<const char *>(p);
	auto r = registered.upper_bound(const_cast<char *>(c));
	if (r == registered.begin()) return false;
	r--;
	return c + bytes <= r->first + r->second;
}

std::string describe(const void *p) {
	const char *c = static_cast<const char *>(p);
	char text[200];
	const Allocation *a = allocation_near(c);
	if (a == nullptr) {
		snprintf(text, sizeof text, "address %p, far from any allocation", p);
		return text;
	}
	long long offset = c - a->begin;
	const char *which = a->freed ? "freed " : "";
	const char *what = a->kind == Kind::device ? "allocation" : "host allocation";
	if (offset < 0) snprintf(text, sizeof text, "%lld bytes before %s%s %d of %zu bytes", -offset, which, what, a->number, a->bytes);
	else if (offset >= (long long)a->bytes) snprintf(text, sizeof text, "%lld bytes past the end of %s%s %d of %zu bytes (offset %lld)", offset - (long long)a->bytes, which, what, a->number, a->bytes, offset);
	else snprintf(text, sizeof text, "offset %lld of %s%s %d of %zu bytes", offset, which, what, a->number, a->bytes);
	return text;
}

int check_edges(const Allocation *a, const char *after) {
	if (a == nullptr) {
		int error = 0;
		for (auto &[begin, each] : allocations)
			if (!each.freed && error == 0) error = check_edges(&each, after);
		return error;
	}
	char *pages = a->mapping + margin, *end = a->mapping + a->mapping_bytes - margin;
	size_t after_bytes = size_t(end - a->begin) - a->bytes;
	// The poison of the last bytes continues the pattern of the allocation.
	char last[16];
	poison(last, 16);
	bool intact = poisoned(pages, size_t(a->begin - pages));
	for (size_t i = 0; i < after_bytes; i++) intact = intact && a->begin[a->bytes + i] == last[(a->bytes + i) % 4];
	if (intact) return 0;
	report_fault(CUDA_ERROR_ILLEGAL_ADDRESS, "%s wrote just outside allocation %d of %zu bytes", after, a->number, a->bytes);
	poison(pages, size_t(a->begin - pages));
	for (size_t i = 0; i < after_bytes; i++) a->begin[a->bytes + i] = last[(a->bytes + i) % 4];
	return CUDA_ERROR_ILLEGAL_ADDRESS;
}

}  // namespace emu
