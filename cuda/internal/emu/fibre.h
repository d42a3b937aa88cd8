// Fibres: one stack for each thread of a block, and the switch between two stacks. A
// switch saves only the registers that a call must preserve and makes no system call, so
// a barrier of 256 threads takes one or two microseconds.
#pragma once
#include <stddef.h>

namespace emu {

struct Fibre {
	void *sp;    // its stack pointer while another fibre runs
	char *base;  // lowest usable byte of its stack; a guard page lies below
	int number;
};

constexpr size_t stack_bytes = 80 << 10;  // of which each fibre uses 64 KiB: see rewind
constexpr size_t guard_bytes = 64 << 10;  // a multiple of every page size in use

// Returns a fibre that runs entry at the first switch to it; entry must not return. Null
// if there is no memory.
Fibre *new_fibre(int number, void (*entry)());

// Resets a fibre to its initial state.
void rewind(Fibre *f, void (*entry)());

// Saves the stack pointer of the running fibre in *from and continues on the stack `to`.
extern "C" void emu_switch(void **from, void *to);

}  // namespace emu
