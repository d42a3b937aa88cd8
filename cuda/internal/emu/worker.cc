#include "worker.h"

#include <algorithm>
#include <numeric>
#include <string>
#include "driver.h"
#include "fault.h"
#include "traffic.h"

namespace emu {

__thread View view;
__thread Worker *worker;
Kernel *kernels;
Order order;

static uint64_t mix(uint64_t x) {  // the finaliser of SplitMix64 (Steele, Lea, Flood 2014)
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

long long block_at(long long i, long long n) {
	if (order.kind == Order::forward) return i;
	if (order.kind == Order::reverse) return n - 1 - i;
	// A step that shares no divisor with n visits every block once.
	unsigned long long step = mix(order.seed) % n + 1;
	while (std::gcd(step, (unsigned long long)n) != 1) step++;
	return (long long)(((unsigned __int128)step * i + mix(order.seed + 1)) % n);
}

Worker::Worker() {
	for (int t = 0; t < max_threads; t++) order_[t] = place_[t] = uint16_t(t);
	std::fill_n(warp_epoch_, max_threads / 32, 0);
}

void Worker::set_shape(uint3 size) {
	view.block_size = size;
	if (order.kind != Order::shuffled && size.x == shape_.x && size.y == shape_.y && size.z == shape_.z) return;
	shape_ = size;
	count_ = int(size.x * size.y * size.z);
	unsigned t = 0;
	for (unsigned z = 0; z < size.z; z++)
		for (unsigned y = 0; y < size.y; y++)
			for (unsigned x = 0; x < size.x; x++) index_[t++] = uint3{x, y, z};
	set_order();
}

void Worker::set_order() {
	for (int t = 0; t < count_; t++) order_[t] = uint16_t(t);
	if (order.kind == Order::reverse) std::reverse(order_, order_ + count_);
	if (order.kind == Order::shuffled) {
		const uint3 &b = view.block, &grid = view.grid_size;
		uint64_t x = mix(order.seed + (uint64_t(b.z) * grid.y + b.y) * grid.x + b.x);
		for (int t = count_ - 1; t > 0; t--) std::swap(order_[t], order_[(x = mix(x)) % (t + 1)]);
	}
	for (int t = 0; t < count_; t++) place_[order_[t]] = uint16_t(t);
}

void Worker::run(const Launch &l, uint3 block) {
	launch = &l;
	view.block = block;
	view.grid_size = l.grid;
	view.epoch++;
	set_shape(l.block);
	std::fill_n(sp_, count_, nullptr);
	std::fill_n(waiting_, max_threads / 32, 0);
	make_all_ready();
	returned_ = arrived_ = yes_ = 0;
	block_arrays_.clear();
	shared_used_ = 0;
	failed_ = false;

	running = true;
	int first = next();
	if (!fibres_.empty() || add_fibre()) {
		enter(first);
		emu_switch(&main_, sp_[first]);
	}
	running = false;
	if (traffic) {
		double blocks = double(l.grid.x) * l.grid.y * l.grid.z;
		count_traffic(*l.kernel, blocks > 3 ? blocks / 3 : 1);
	}
	if (failed_) {
		for (Fibre *f : fibres_) rewind(f, fibre_main);
		idle_ = fibres_;
	}
}

// Runs threads that have not started, until a waiting thread must continue.
void Worker::fibre_main() {
	Worker &w = *worker;
	for (;;) {
		w.launch->kernel->call(w.launch->arguments);
		Fibre *f = w.fibre_[w.current_];
		w.state_[w.current_] = State::returned;
		if (++w.returned_ == w.count_) {
			w.idle_.push_back(f);
			emu_switch(&f->sp, w.main_);
			continue;
		}
		int t = w.next();
		if (t < 0) w.report_deadlock();
		if (w.sp_[t] == nullptr) {
			w.fibre_[t] = f;
			w.sp_[t] = f->base;  // not null; replaced when the thread waits
			w.enter(t);
		} else {
			w.idle_.push_back(f);
			w.enter(t);
			emu_switch(&f->sp, w.sp_[t]);
		}
	}
}

// The thread that runs next, or -1 if all threads wait.
int Worker::next() {
	int words = (count_ + 63) / 64, w = cursor_ / 64;
	uint64_t bits = ready_[w] & ~0ull << (cursor_ % 64);
	for (int i = 0; bits == 0; i++) {
		if (i == words) return -1;
		w = w + 1 < words ? w + 1 : 0;
		bits = ready_[w];
	}
	int place = w * 64 + __builtin_ctzll(bits);
	ready_[w] &= ~(1ull << (place % 64));
	cursor_ = place + 1 < count_ ? place + 1 : 0;
	return order_[place];
}

void Worker::make_all_ready() {
	for (int t = 0; t < max_threads; t += 64) ready_[t / 64] = count_ - t >= 64 ? ~0ull : count_ > t ? (1ull << (count_ - t)) - 1 : 0;
	memset(state_, int(State::ready), size_t(count_));
	cursor_ = 0;
}

bool Worker::add_fibre() {
	Fibre *f = new_fibre(int(fibres_.size()), fibre_main);
	if (f == nullptr) {
		report_fault(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "%s: no memory for the stacks of %d threads", launch->kernel->name, count_);
		return false;
	}
	fibres_.push_back(f);
	idle_.push_back(f);
	return true;
}

// Makes t the thread that runs, on a stack of its own.
void Worker::enter(int t) {
	if (sp_[t] == nullptr) {
		if (idle_.empty() && !add_fibre()) abandon();
		fibre_[t] = idle_.back();
		idle_.pop_back();
		sp_[t] = fibre_[t]->sp;
	}
	current_ = t;
	view.thread = index_[t];
	view.id = unsigned(t);
	view.now = access(view.epoch, warp_epoch_[t / 32], unsigned(t));
}

inline void Worker::wait() {
	int me = current_, t = next();
	if (t < 0) report_deadlock();
	enter(t);
	// The stack of the thread after it is loaded into the cache early.
	const char *soon = static_cast<const char *>(sp_[order_[cursor_]]);
	__builtin_prefetch(soon);
	__builtin_prefetch(soon + 64);
	__builtin_prefetch(soon + 128);
	if (t != me) emu_switch(&sp_[me], sp_[t]);
}

void Worker::abandon() {
	failed_ = true;
	void *discarded;
	emu_switch(&discarded, main_);
	__builtin_unreachable();
}

bool Worker::overflowed(uintptr_t address) const {
	const Fibre *f = fibre_[current_];
	return f != nullptr && address < uintptr_t(f->base) && address >= uintptr_t(f->base) - guard_bytes;
}

int Worker::barrier(const char *what, bool yes, Site at) {
	if (arrived_ == 0) {
		first_ = current_;
		barrier_ = what;
		barrier_at_ = at;
	} else if (at.line != barrier_at_.line || what != barrier_) {
		// CUDA requires that all threads of a block wait at the same barrier: a branch
		// that only some threads take must not contain one.
		fail(CUDA_ERROR_LAUNCH_FAILED, "waits at %s (%s:%d) while thread %s waits at %s (%s:%d)", what, base_name(at.file), at.line,
		     thread_name(unsigned(first_)).c_str(), barrier_, base_name(barrier_at_.file), barrier_at_.line);
	}
	yes_ += yes;
	state_[current_] = State::at_barrier;
	if (++arrived_ == count_) {
		last_yes_ = yes_;
		arrived_ = yes_ = 0;
		view.epoch++;
		make_all_ready();
	}
	wait();
	return last_yes_;
}

uint64_t Worker::meet_lanes(WarpOperation kind, const char *what, unsigned mask, uint64_t value, int source, Site at) {
	Lane &me = lanes_[current_];
	int lane = current_ % 32, warp = current_ / 32;
	if ((mask >> lane & 1) == 0) {
		fail(CUDA_ERROR_LAUNCH_FAILED, "%s (%s:%d) with mask 0x%08x, which does not contain its own lane %d", what, base_name(at.file), at.line, mask, lane);
	}
	if (kind == WarpOperation::shuffle && (mask >> source & 1) == 0) {
		fail(CUDA_ERROR_LAUNCH_FAILED, "%s (%s:%d) reads lane %d, which is not in mask 0x%08x", what, base_name(at.file), at.line, source, mask);
	}
	me.what = what;
	me.at = at;
	me.mask = mask;
	me.source = source;
	me.value = value;
	state_[current_] = State::at_warp;
	waiting_[warp] |= 1u << lane;
	if ((waiting_[warp] & mask) != mask) {
		wait();
		return me.value;
	}

	Lane *lanes = lanes_ + warp * 32;
	uint64_t given[32], all = 0;
	for (unsigned m = mask; m != 0; m &= m - 1) {
		int l = __builtin_ctz(m);
		const Lane &other = lanes[l];
		if (other.mask != mask || other.at.line != at.line || other.what != what) {
			fail(CUDA_ERROR_LAUNCH_FAILED, "waits in %s (%s:%d) with mask 0x%08x, but thread %s in %s (%s:%d) with mask 0x%08x", what, base_name(at.file),
			     at.line, mask, thread_name(unsigned(warp * 32 + l)).c_str(), other.what, base_name(other.at.file), other.at.line, other.mask);
		}
		given[l] = other.value;
		all |= other.value << l;
	}
	waiting_[warp] &= ~mask;
	for (unsigned m = mask; m != 0; m &= m - 1) {
		int l = __builtin_ctz(m);
		lanes[l].value = kind == WarpOperation::vote ? all : given[lanes[l].source];
		int t = warp * 32 + l;
		state_[t] = State::ready;
		if (l != lane) ready_[place_[t] / 64] |= 1ull << (place_[t] % 64);
	}
	// Votes and shuffles do not order memory accesses (CUDA programming guide).
	bool whole = mask == 0xffffffff || (warp == count_ / 32 && mask == (1u << count_ % 32) - 1);
	if (kind == WarpOperation::sync && whole) view.now = access(view.epoch, ++warp_epoch_[warp], view.id);
	return me.value;
}

// Reports where each thread is, when every thread of the block waits or has returned.
void Worker::report_deadlock() {
	struct Group {
		State state;
		const char *what;
		Site at;
		std::string threads;
		int last, count;
	};
	std::vector<Group> groups;
	for (int t = 0; t < count_; t++) {
		Group one{state_[t], "", {}, thread_name(unsigned(t)), t, 1};
		if (one.state == State::at_barrier) one.what = barrier_, one.at = barrier_at_;
		if (one.state == State::at_warp) one.what = lanes_[t].what, one.at = lanes_[t].at;
		auto g = std::find_if(groups.begin(), groups.end(), [&](const Group &g) { return g.state == one.state && g.what == one.what && g.at.line == one.at.line; });
		if (g == groups.end()) {
			groups.push_back(one);
			continue;
		}
		if (t != g->last + 1) {
			if (g->count > 1) g->threads += "..." + thread_name(unsigned(g->last));
			g->threads += " " + thread_name(unsigned(t));
			g->count = 0;
		}
		g->last = t;
		g->count++;
	}
	std::string text;
	for (Group &g : groups) {
		if (g.count > 1) g.threads += "..." + thread_name(unsigned(g.last));
		if (g.threads.size() > 200) g.threads = g.threads.substr(0, 200) + "...";
		text += text.empty() ? "" : "; ";
		text += "threads " + g.threads;
		if (g.state == State::returned) {
			text += " returned";
		} else {
			text += std::string(" wait at ") + g.what + " (" + base_name(g.at.file) + ":" + std::to_string(g.at.line) + ")";
		}
	}
	fail(CUDA_ERROR_LAUNCH_FAILED, "every thread waits or has returned: %s", text.c_str());
}

int barrier(const char *what, bool yes, Site at) { return worker->barrier(what, yes, at); }
uint64_t exchange(const char *what, unsigned mask, uint64_t value, int source, Site at) {
	return worker->meet_lanes(WarpOperation::shuffle, what, mask, value, source, at);
}
unsigned vote(const char *what, unsigned mask, bool yes, Site at) { return unsigned(worker->meet_lanes(WarpOperation::vote, what, mask, yes, lane(), at)); }
void sync_warp(unsigned mask, Site at) { worker->meet_lanes(WarpOperation::sync, "__syncwarp", mask, 0, lane(), at); }
void trap(Site at) { fail(CUDA_ERROR_ILLEGAL_INSTRUCTION, "__trap at %s:%d", base_name(at.file), at.line); }

}  // namespace emu
