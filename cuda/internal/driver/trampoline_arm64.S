//go:build gpu

// Every function of libcuda is a jump through its slot. A slot first points to code that
// opens the library, which fills all slots.

#define FORWARD(name) forward name

	.macro forward name
	.globl \name
	.hidden \name
	.type \name, %function
\name:
	mov x17, #index
	b jump
	.size \name, .-\name
	.set index, index+1
	.endm

	.text
	.set index, 0
#include "symbols.h"

	.type jump, %function
jump:
	adrp x16, driver_slots
	add x16, x16, :lo12:driver_slots
	ldr x16, [x16, x17, lsl #3]
	br x16
	.size jump, .-jump

	.type first, %function
first:
	stp x29, x30, [sp, #-112]!
	mov x29, sp
	stp x0, x1, [sp, #16]
	stp x2, x3, [sp, #32]
	stp x4, x5, [sp, #48]
	stp x6, x7, [sp, #64]
	str q0, [sp, #80]
	str x17, [sp, #96]
	bl driver_open
	ldr x17, [sp, #96]
	ldr q0, [sp, #80]
	ldp x6, x7, [sp, #64]
	ldp x4, x5, [sp, #48]
	ldp x2, x3, [sp, #32]
	ldp x0, x1, [sp, #16]
	ldp x29, x30, [sp], #112
	b jump
	.size first, .-first

	.data
	.balign 8
	.globl driver_slots
	.hidden driver_slots
driver_slots:
	.rept index
	.quad first
	.endr

	.section .note.GNU-stack,"",%progbits
