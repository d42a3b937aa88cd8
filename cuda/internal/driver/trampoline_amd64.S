//go:build gpu

// Every function of libcuda is a jump through its slot. A slot first points to code that
// opens the library, which fills all slots.

#define FORWARD(name) forward name

	.macro forward name
	.globl \name
	.hidden \name
	.type \name, @function
\name:
	movl $index, %eax
	jmp *slots+8*index(%rip)
	.size \name, .-\name
	.set index, index+1
	.endm

	.text
	.set index, 0
#include "symbols.h"

	.type first, @function
first:
	pushq %rbp
	movq %rsp, %rbp
	pushq %rdi
	pushq %rsi
	pushq %rdx
	pushq %rcx
	pushq %r8
	pushq %r9
	pushq %rax
	subq $24, %rsp
	movups %xmm0, (%rsp)
	call driver_open
	movups (%rsp), %xmm0
	addq $24, %rsp
	popq %rax
	popq %r9
	popq %r8
	popq %rcx
	popq %rdx
	popq %rsi
	popq %rdi
	popq %rbp
	leaq driver_slots(%rip), %r11
	jmp *(%r11,%rax,8)
	.size first, .-first

	.data
	.balign 8
	.globl driver_slots
	.hidden driver_slots
driver_slots:
slots:
	.rept index
	.quad first
	.endr

	.section .note.GNU-stack,"",@progbits
