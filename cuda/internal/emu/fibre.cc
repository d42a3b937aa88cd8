#include "fibre.h"

#include <stdint.h>
#include <sys/mman.h>

// A saved stack contains, from its top down: the return address, then the registers that
// a callee preserves.
#if defined(__x86_64__)
asm(R"(
	.text
	.p2align 4
	.globl emu_switch
	.hidden emu_switch
	.type emu_switch, @function
emu_switch:
	pushq %rbp
	pushq %rbx
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	movq %rsp, (%rdi)
	movq %rsi, %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbx
	popq %rbp
	ret
	.size emu_switch, .-emu_switch
)");
constexpr int saved_words = 8, entry_word = 6;  // the word above entry aligns its frame
#elif defined(__aarch64__)
asm(R"(
	.text
	.p2align 4
	.globl emu_switch
	.hidden emu_switch
	.type emu_switch, @function
emu_switch:
	stp x29, x30, [sp, #-160]!
	stp x19, x20, [sp, #16]
	stp x21, x22, [sp, #32]
	stp x23, x24, [sp, #48]
	stp x25, x26, [sp, #64]
	stp x27, x28, [sp, #80]
	stp d8, d9, [sp, #96]
	stp d10, d11, [sp, #112]
	stp d12, d13, [sp, #128]
	stp d14, d15, [sp, #144]
	mov x9, sp
	str x9, [x0]
	mov sp, x1
	ldp x19, x20, [sp, #16]
	ldp x21, x22, [sp, #32]
	ldp x23, x24, [sp, #48]
	ldp x25, x26, [sp, #64]
	ldp x27, x28, [sp, #80]
	ldp d8, d9, [sp, #96]
	ldp d10, d11, [sp, #112]
	ldp d12, d13, [sp, #128]
	ldp d14, d15, [sp, #144]
	ldp x29, x30, [sp], #160
	ret
	.size emu_switch, .-emu_switch
)");
constexpr int saved_words = 20, entry_word = 1;
#else
#error "the emulated device runs on x86-64 and arm64"
#endif

namespace emu {

void rewind(Fibre *f, void (*entry)()) {
	// Stacks have equal distances, so their tops would share a few lines of the cache.
	// Each top is therefore moved by a different amount.
	uintptr_t top = uintptr_t(f->base) + stack_bytes - size_t(f->number % 127) * 128;
	uint64_t *words = reinterpret_cast<uint64_t *>(top) - saved_words;
	for (int i = 0; i < saved_words; i++) words[i] = 0;
	words[entry_word] = uint64_t(uintptr_t(entry));
	f->sp = words;
}

Fibre *new_fibre(int number, void (*entry)()) {
	void *memory = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED) return nullptr;
	mprotect(memory, guard_bytes, PROT_NONE);
	Fibre *f = new Fibre{nullptr, static_cast<char *>(memory) + guard_bytes, number};
	rewind(f, entry);
	return f;
}

}  // namespace emu
