// A worker is a thread of the operating system that runs blocks, one after the other.
//
// The threads of a block run on one worker in turn: a thread runs until it must wait for
// others or returns. A thread that never waits needs no stack of its own, because the
// next thread starts on the same stack; a kernel without barriers is then a plain loop.
#pragma once
#include <stdint.h>
#include <memory>
#include <vector>
#include "fibre.h"
#include "registry.h"
#include "shared.h"
#include "thread.h"

namespace emu {

constexpr int max_threads = 1024;
constexpr size_t shared_bytes = 48 << 10;

struct Launch {
	const Kernel *kernel;
	uint3 grid, block;
	alignas(16) unsigned char arguments[max_argument_bytes];
};

enum class WarpOperation { sync, vote, shuffle };  // of lanes of a warp
enum class State : uint8_t { ready, at_barrier, at_warp, returned };

// The value that a lane passes to its warp, and the place where it waits for the others.
struct Lane {
	const char *what;
	Site at;
	unsigned mask;
	int source;
	uint64_t value;  // passed, and then received
};

struct Worker {
	Worker();

	// Runs a block until it ends or faults.
	void run(const Launch &launch, uint3 block);

	// These implement the functions of thread.h and shared.h.
	int barrier(const char *what, bool yes, Site at);
	uint64_t meet_lanes(WarpOperation kind, const char *what, unsigned mask, uint64_t value, int source, Site at);
	Array *array_of(const Declaration &declaration);

	// Ends the block, from any of its stacks.
	[[noreturn]] void abandon();

	// The stack for handling a fault of the processor; the stack of the faulty thread
	// may be unusable.
	void *fault_stack() const { return main_; }

	// Reports whether an address is in the guard page of the fibre that runs.
	bool overflowed(uintptr_t address) const;

	bool running = false;  // is running a thread of a block
	const Launch *launch = nullptr;

private:
	static void fibre_main();
	void set_shape(uint3 block_size);
	void set_order();
	void make_all_ready();
	bool add_fibre();
	int next();
	void enter(int thread);
	void wait();
	[[noreturn]] void report_deadlock();

	void *main_ = nullptr;
	bool failed_ = false;
	uint3 shape_{0, 0, 0};
	int count_ = 0, current_ = 0, returned_ = 0;

	// The data of a thread that a switch uses are in separate arrays, so that those of a
	// block fit the cache.
	void *sp_[max_threads];  // null until the thread starts
	State state_[max_threads];
	uint3 index_[max_threads];
	Fibre *fibre_[max_threads];  // of those that have started
	Lane lanes_[max_threads];

	int cursor_ = 0;                     // the place that runs next
	uint64_t ready_[max_threads / 64];  // by place
	uint16_t order_[max_threads];       // the thread at a place
	uint16_t place_[max_threads];       // the place of a thread

	int arrived_ = 0, first_ = 0, yes_ = 0, last_yes_ = 0;  // at the barrier
	const char *barrier_ = nullptr;
	Site barrier_at_{};
	unsigned waiting_[max_threads / 32];  // lanes of each warp that wait for others
	unsigned warp_epoch_[max_threads / 32];
	std::vector<Fibre *> fibres_, idle_;

	std::vector<std::unique_ptr<Array>> arrays_;  // of every declaration so far
	std::vector<Array *> block_arrays_;           // those of the block that runs
	size_t shared_used_ = 0;
};

// The worker that runs on this thread of the operating system, if one does.
extern __thread Worker *worker __attribute__((tls_model("initial-exec")));

// The order of blocks and threads: forward, reverse, or shuffled by a seed
// (DPTRAIN_EMU_ORDER).
struct Order {
	enum { forward, reverse, shuffled } kind = forward;
	uint64_t seed = 0;
};
extern Order order;

// The block that runs as number i of n.
long long block_at(long long i, long long n);

}  // namespace emu
