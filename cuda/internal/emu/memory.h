// Device memory and page-locked host memory. Each allocation is a separate mapping that
// ends at inaccessible pages, so that an access beyond it faults. New memory is filled
// with poison, and so are the few bytes after it up to the alignment.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string>

namespace emu {

// The poison reads as NaN in float32, float64 and bf16 and as an absurd integer.
constexpr uint32_t poison_word = 0x7ff57ff5;
void poison(void *p, size_t bytes);

enum class Kind { device, host };

struct Allocation {
	Kind kind;
	char *begin;
	size_t bytes;
	char *mapping;  // with the pages around it
	size_t mapping_bytes;
	void *owner;  // its context
	int number;   // in the order of allocation
	bool freed;
};

// Null if there is no memory.
char *allocate(Kind kind, size_t bytes, void *owner);

// False if there is no allocation of that kind that begins there.
bool release(Kind kind, void *begin);
void release_all(void *owner);

// The allocation that contains [p, p+bytes), or null.
const Allocation *allocation_of(Kind kind, const void *p, size_t bytes);

// Page-locked memory that was allocated elsewhere.
bool register_host(void *p, size_t bytes);
bool unregister_host(void *p);

// Reports whether host memory is page-locked: the device may access it while the host
// continues.
bool page_locked(const void *p, size_t bytes);

// Describes the position of an address among the allocations.
std::string describe(const void *p);

// Reports a fault if the bytes around an allocation have changed; null checks all
// allocations.
int check_edges(const Allocation *a, const char *after);

size_t memory_total();
size_t memory_free();
void set_memory_total(size_t bytes);

}  // namespace emu
