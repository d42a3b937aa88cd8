// Counts the memory traffic of kernels' instructions: a profile without a GPU. For
// global memory, the 32-byte sectors that a warp's request touches; for shared memory,
// the passes that it needs, because in one pass each of 32 banks delivers one word. Each
// count comes with the smallest possible count for the same bytes.
//
// DPTRAIN_EMU_TRAFFIC names the file for the counts. A library built from PTX then runs
// only three blocks of every launch, as a sample of all blocks, so results are wrong.
//
// DPTRAIN_EMU_BYTES names a file for the number of launches of each kernel, and for the bytes
// of the distinct sectors that each launch loads and stores: what it must exchange with
// memory if no launch finds data of another in a cache. All blocks run. Copies that are not
// kernels are not counted.
#pragma once
#include <stdint.h>
#include "registry.h"

namespace emu {

enum class Request : uint8_t { load, store, load_shared, store_shared };

extern bool traffic;  // whether traffic or bytes are counted

// Reads the environment.
void begin_traffic();

// Reports whether a block is one of the sample.
bool is_sampled(long long block, long long blocks);

// Records a request of the running thread and its line in the module.
void note_traffic(Request access, int line, uint64_t address, size_t bytes);

// Counts the requests of a block, multiplied by the number of blocks that it represents.
void count_traffic(const Kernel &kernel, double blocks);

// Counts a launch whose blocks have been counted.
void end_launch(const Kernel &kernel);

void write_traffic();

}  // namespace emu
