// A worker is a thread of the operating system that runs blocks, one after the other.
//
// The threads of a block share a worker and take turns: one runs until it must wait for
// the others or returns. A thread that never waits needs no stack of its own: the next
// one starts where it ended, so a kernel without barriers is a plain loop.
#pragma once
#include <stdint.h>
#include <memory>
#include <vector>
#include "fibre.h"
#include "registry.h"
#include "shared.h"
#include "thread.h"

namespace emu {

constexpr int most_threads = 1024;
constexpr size_t shared_bytes = 48 << 10;

struct Launch {
	const Kernel *kernel;
	uint3 grid, block;
	alignas(16) unsigned char arguments[most_argument_bytes];
};

enum class Meeting { sync, vote, shuffle };  // of lanes of a warp
enum class State : uint8_t { ready, at_barrier, at_warp, returned };

// What a lane gives to its warp, and where it waits for the others.
struct Lane {
	const char *what;
	Site at;
	unsigned mask;
	int source;
	uint64_t value;  // given, and then received
};

struct Worker {
	Worker();

	// Runs a block, or as much of it as goes without a fault.
	void run(const Launch &launch, uint3 block);

	// What the functions of thread.h and shared.h do.
	int barrier(const char *what, bool yes, Site at);
	uint64_t meet(Meeting kind, const char *what, unsigned mask, uint64_t value, int source, Site at);
	Array *array_of(const Declaration &declaration);

	// Leaves the block for good, from any of its stacks.
	[[noreturn]] void abandon();

	// The stack for handling a fault of the processor; the stack on which it happened may be
	// unusable.
	void *landing_stack() const { return main_; }

	// Whether an address lies in the guard page of the fibre that runs.
	bool overflowed(uintptr_t address) const;

	bool running = false;  // a thread of a block
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
	[[noreturn]] void stuck();

	void *main_ = nullptr;
	bool failed_ = false;
	uint3 shape_{0, 0, 0};
	int count_ = 0, current_ = 0, returned_ = 0;

	// A switch touches little of each thread, so that a block's threads fit the cache.
	void *sp_[most_threads];  // null until the thread starts
	State state_[most_threads];
	uint3 index_[most_threads];
	Fibre *fibre_[most_threads];  // of those that have started
	Lane lanes_[most_threads];

	int cursor_ = 0;                     // the place whose turn is next
	uint64_t ready_[most_threads / 64];  // by place
	uint16_t order_[most_threads];       // the thread at a place
	uint16_t place_[most_threads];       // the place of a thread

	int arrived_ = 0, first_ = 0, yes_ = 0, last_yes_ = 0;  // at the barrier
	const char *barrier_ = nullptr;
	Site barrier_at_{};
	unsigned waiting_[most_threads / 32];  // lanes of each warp that wait for others
	unsigned warp_epoch_[most_threads / 32];
	std::vector<Fibre *> fibres_, idle_;

	std::vector<std::unique_ptr<Array>> arrays_;  // every declaration met so far
	std::vector<Array *> block_arrays_;           // those of the block that runs
	size_t shared_used_ = 0;
};

// The worker that runs on this thread of the operating system, if one does.
extern __thread Worker *worker __attribute__((tls_model("initial-exec")));

// The order of turns: forward, reverse, or shuffled by a seed (DPTRAIN_EMU_ORDER).
struct Order {
	enum { forward, reverse, shuffled } kind = forward;
	uint64_t seed = 0;
};
extern Order order;

// The block that takes turn i of n.
long long block_at(long long i, long long n);

}  // namespace emu
