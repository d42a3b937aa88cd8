#include "grid.h"

#include <pthread.h>
#include <time.h>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include "fault.h"
#include "traffic.h"

namespace emu {

// Waking a helper takes about this long.
constexpr long long min_parallel_nanoseconds = 20000;

struct Grid {
	const Launch *launch;
	long long blocks;
	std::atomic<long long> next{0};
};

// It is never destroyed, because threads wait here until the process ends.
struct Pool {
	std::mutex mutex;
	std::condition_variable wake_device, wake_helpers, done;
	const std::function<void()> *request = nullptr;  // of the device thread
	Grid *open = nullptr;                            // that helpers may join
	long long opened = 0;                            // number of open grids so far
	int inside = 0;                                  // helpers that have joined
	int workers = 1, started = 0;
};
static Pool &pool = *new Pool;

void set_workers(int n) { pool.workers = n < 1 ? 1 : n; }

static long long now() {
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static bool run_next(Grid &g) {
	long long i = g.next.fetch_add(1, std::memory_order_relaxed);
	if (i >= g.blocks || has_failed()) return false;
	long long b = block_at(i, g.blocks);
	if (!is_sampled(b, g.blocks)) return true;
	const uint3 &size = g.launch->grid;
	worker->run(*g.launch, uint3{unsigned(b % size.x), unsigned(b / size.x % size.y), unsigned(b / size.x / size.y)});
	return true;
}

static void begin_worker(const char *name) {
	pthread_setname_np(pthread_self(), name);
	prepare_thread();
	worker = new Worker;
}

static void run_helper_thread() {
	begin_worker("GPU helper");
	std::unique_lock<std::mutex> lock(pool.mutex);
	long long helped = 0;
	for (;;) {
		pool.wake_helpers.wait(lock, [&] { return pool.open != nullptr && pool.opened != helped; });
		Grid *g = pool.open;
		helped = pool.opened;
		pool.inside++;
		lock.unlock();
		while (run_next(*g)) {
		}
		lock.lock();
		if (--pool.inside == 0) pool.done.notify_all();
	}
}

static void run_device_thread() {
	begin_worker("emulated GPU");
	std::unique_lock<std::mutex> lock(pool.mutex);
	for (;;) {
		pool.wake_device.wait(lock, [] { return pool.request != nullptr; });
		lock.unlock();
		(*pool.request)();
		lock.lock();
		pool.request = nullptr;
		pool.done.notify_all();
	}
}

void on_device(const std::function<void()> &work) {
	std::unique_lock<std::mutex> lock(pool.mutex);
	if (pool.started == 0) {
		std::thread(run_device_thread).detach();
		pool.started = 1;
	}
	pool.request = &work;
	pool.wake_device.notify_one();
	pool.done.wait(lock, [] { return pool.request == nullptr; });
}

void run(const Launch &l) {
	Grid g{&l, (long long)l.grid.x * l.grid.y * l.grid.z};
	long long begin = now();
	while (run_next(g)) {
		if (pool.open != nullptr || pool.workers == 1 || g.next.load(std::memory_order_relaxed) >= g.blocks) continue;
		if (now() - begin > min_parallel_nanoseconds) {
			std::lock_guard<std::mutex> lock(pool.mutex);
			for (; pool.started < pool.workers; pool.started++) std::thread(run_helper_thread).detach();
			pool.open = &g;
			pool.opened++;
			pool.wake_helpers.notify_all();
		}
	}
	if (pool.open != nullptr) {
		std::unique_lock<std::mutex> lock(pool.mutex);
		pool.open = nullptr;
		pool.done.wait(lock, [] { return pool.inside == 0; });
	}
	end_launch(*l.kernel);
}

}  // namespace emu
