// Fibres: stacks of their own for the threads of a block, and the switch between two of
// them. A switch saves what a call must preserve and nothing else; it makes no system
// call, so a barrier of 256 threads costs a microsecond or two.
#pragma once
#include <stddef.h>

namespace emu {

struct Fibre {
	void *sp;    // where it stands while another runs
	char *base;  // lowest usable byte of its stack; a guard page lies below
	int number;
};

constexpr size_t stack_bytes = 80 << 10;  // of which each fibre uses 64 KiB: see rewind
constexpr size_t guard_bytes = 64 << 10;  // a multiple of every page size in use

// A fibre that will run entry, which must not return, when first switched to. Null when
// there is no memory.
Fibre *new_fibre(int number, void (*entry)());

// Resets a fibre to its beginning, in every state.
void rewind(Fibre *f, void (*entry)());

// Leaves the running stack, noting in *from where it stands, for the one that stands at to.
extern "C" void emu_switch(void **from, void *to);

}  // namespace emu
