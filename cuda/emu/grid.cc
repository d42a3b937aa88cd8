#include "grid.h"

#include <pthread.h>
#include <time.h>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include "fault.h"

namespace emu {

// Waking a helper costs about as much as this many nanoseconds of work.
constexpr long long worth_help = 20000;

struct Grid {
	const Launch *launch;
	long long blocks;
	std::atomic<long long> next{0};
};

static std::mutex mutex;
static std::condition_variable wake_device, wake_helpers, done;
static const std::function<void()> *request;  // of the device thread
static Grid *open;                            // for helpers to join
static long long opened;                      // how many there have been
static int inside;                            // helpers that have joined
static int workers = 1, started;

void set_workers(int n) { workers = n < 1 ? 1 : n; }

static long long now() {
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static bool run_next(Grid &g) {
	long long i = g.next.fetch_add(1, std::memory_order_relaxed);
	if (i >= g.blocks || has_failed()) return false;
	long long b = block_at(i, g.blocks);
	const uint3 &size = g.launch->grid;
	worker->run(*g.launch, uint3{unsigned(b % size.x), unsigned(b / size.x % size.y), unsigned(b / size.x / size.y)});
	return true;
}

static void begin_worker(const char *name) {
	pthread_setname_np(pthread_self(), name);
	prepare_thread();
	worker = new Worker;
}

static void help() {
	begin_worker("emulated help");
	std::unique_lock<std::mutex> lock(mutex);
	long long helped = 0;
	for (;;) {
		wake_helpers.wait(lock, [&] { return open != nullptr && opened != helped; });
		Grid *g = open;
		helped = opened;
		inside++;
		lock.unlock();
		while (run_next(*g)) {
		}
		lock.lock();
		if (--inside == 0) done.notify_all();
	}
}

static void serve() {
	begin_worker("emulated GPU");
	std::unique_lock<std::mutex> lock(mutex);
	for (;;) {
		wake_device.wait(lock, [] { return request != nullptr; });
		lock.unlock();
		(*request)();
		lock.lock();
		request = nullptr;
		done.notify_all();
	}
}

void on_device(const std::function<void()> &work) {
	std::unique_lock<std::mutex> lock(mutex);
	if (started == 0) {
		std::thread(serve).detach();
		started = 1;
	}
	request = &work;
	wake_device.notify_one();
	done.wait(lock, [] { return request == nullptr; });
}

void run(const Launch &l) {
	Grid g{&l, (long long)l.grid.x * l.grid.y * l.grid.z};
	long long begin = now();
	while (run_next(g)) {
		if (open != nullptr || workers == 1 || g.next.load(std::memory_order_relaxed) >= g.blocks) continue;
		if (now() - begin > worth_help) {
			std::lock_guard<std::mutex> lock(mutex);
			for (; started < workers; started++) std::thread(help).detach();
			open = &g;
			opened++;
			wake_helpers.notify_all();
		}
	}
	if (open == nullptr) return;
	std::unique_lock<std::mutex> lock(mutex);
	open = nullptr;
	done.wait(lock, [] { return inside == 0; });
}

}  // namespace emu
