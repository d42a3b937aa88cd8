// The view of one thread of the emulated device: CUDA's built-in variables, barriers,
// votes and shuffles.
#pragma once
#include <stdint.h>
#include <string.h>
#include <type_traits>
#include "vectors.h"

namespace emu {

// A place in the sources.
struct Site {
	const char *file;
	int line;
};

// Default arguments: the place of the call.
#define EMU_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define EMU_SITE (emu::Site{file, line})

// The emulated thread that this thread of the operating system runs now.
struct View {
	uint3 thread;
	uint3 block;
	uint3 block_size;
	uint3 grid_size;
	unsigned id;     // its number in the block
	unsigned epoch;  // barriers that this worker's blocks have passed
	uint64_t now;    // the Access that it would make (shared.h)
};
extern __thread View view __attribute__((tls_model("initial-exec")));

// Waits for every thread of the block; returns the number of them whose value is true.
int barrier(const char *what, bool yes, Site at);

// Waits for the lanes in mask; returns the value of the source lane.
uint64_t exchange(const char *what, unsigned mask, uint64_t value, int source, Site at);

// Waits for the lanes in mask; returns the mask of those whose value is true.
unsigned vote(const char *what, unsigned mask, bool yes, Site at);

// Orders the memory of the lanes in mask.
void sync_warp(unsigned mask, Site at);

// Ends the launch with an error.
[[noreturn]] void trap(Site at);

template <class T> T shuffle(const char *what, unsigned mask, T value, int source, Site at) {
	static_assert(std::is_arithmetic<T>::value, "CUDA shuffles numbers of 4 or 8 bytes");
	uint64_t bits = 0;
	memcpy(&bits, &value, sizeof value);
	bits = exchange(what, mask, bits, source, at);
	memcpy(&value, &bits, sizeof value);
	return value;
}

inline int lane() { return int(view.id & 31); }

}  // namespace emu

#define threadIdx (static_cast<const uint3 &>(emu::view.thread))
#define blockIdx (static_cast<const uint3 &>(emu::view.block))
#define blockDim (static_cast<const uint3 &>(emu::view.block_size))
#define gridDim (static_cast<const uint3 &>(emu::view.grid_size))
#define warpSize 32

inline void __syncthreads(EMU_HERE) { emu::barrier("__syncthreads", true, EMU_SITE); }
inline int __syncthreads_count(int p, EMU_HERE) { return emu::barrier("__syncthreads_count", p != 0, EMU_SITE); }
inline int __syncthreads_or(int p, EMU_HERE) { return emu::barrier("__syncthreads_or", p != 0, EMU_SITE) != 0; }
inline int __syncthreads_and(int p, EMU_HERE) { return emu::barrier("__syncthreads_and", p == 0, EMU_SITE) == 0; }

inline void __syncwarp(unsigned mask = 0xffffffff, EMU_HERE) { emu::sync_warp(mask, EMU_SITE); }
inline unsigned __ballot_sync(unsigned mask, int p, EMU_HERE) { return emu::vote("__ballot_sync", mask, p != 0, EMU_SITE); }
inline int __any_sync(unsigned mask, int p, EMU_HERE) { return emu::vote("__any_sync", mask, p != 0, EMU_SITE) != 0; }
inline int __all_sync(unsigned mask, int p, EMU_HERE) { return emu::vote("__all_sync", mask, p != 0, EMU_SITE) == mask; }

// A source beyond the lanes of its group of width is the lane itself.
template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = 32, EMU_HERE) {
	return emu::shuffle("__shfl_sync", mask, value, (emu::lane() & -width) | (source & (width - 1)), EMU_SITE);
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, EMU_HERE) {
	int source = emu::lane() - int(delta);
	return emu::shuffle("__shfl_up_sync", mask, value, source < (emu::lane() & -width) ? emu::lane() : source, EMU_SITE);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, EMU_HERE) {
	int source = emu::lane() + int(delta);
	return emu::shuffle("__shfl_down_sync", mask, value, source > (emu::lane() | (width - 1)) ? emu::lane() : source, EMU_SITE);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, EMU_HERE) {
	int source = emu::lane() ^ lanes;
	return emu::shuffle("__shfl_xor_sync", mask, value, source > (emu::lane() | (width - 1)) ? emu::lane() : source, EMU_SITE);
}

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() {}
inline void __trap(EMU_HERE) { emu::trap(EMU_SITE); }
