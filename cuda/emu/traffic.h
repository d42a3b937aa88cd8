// Counts the memory traffic of kernels' instructions: a profile without a GPU. For global
// memory, the 32-byte sectors that a warp's request touches; for shared memory, the passes
// that it needs, because in one pass each of 32 banks delivers one word. Each count comes
// with the smallest possible one for the same bytes; the difference is waste.
//
// DPTRAIN_EMU_TRAFFIC names the file that the counts are written to; a library made of PTX
// then runs three blocks of every launch, which stand for all of them, so the results
// are useless.
#pragma once
#include <stdint.h>
#include "registry.h"

namespace emu {

enum class Request : uint8_t { load, store, load_shared, store_shared };

extern bool traffic;  // is counted

// Reads the environment.
void begin_traffic();

// Whether a block is among those that are run.
bool sampled(long long block, long long blocks);

// Notes what the running thread does in a line of the module.
void note_traffic(Request access, int line, uint64_t address, size_t bytes);

// Counts the requests of a block, times the number of blocks that it stands for.
void count_traffic(const Kernel &kernel, double blocks);

void write_traffic();

}  // namespace emu
