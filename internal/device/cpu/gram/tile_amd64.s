//go:build !noasm

#include "textflag.h"

// func multiplyTileAVX2(dst *float32, stride int, x, y *float32, ld, steps int)
//
// Y0 to Y7 contain half a tile, two registers per row. A step loads sixteen numbers of y
// and broadcasts four of x: eight multiply-adds for six loads.
TEXT ·multiplyTileAVX2(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ stride+8(FP), SI
	MOVQ x+16(FP), AX
	MOVQ y+24(FP), BX
	MOVQ ld+32(FP), CX
	MOVQ steps+40(FP), DX
	LEAQ (DI)(SI*2), R8

	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7

step:
	VMOVUPS      (BX), Y8
	VMOVUPS      32(BX), Y9
	VBROADCASTSS (AX), Y10
	VBROADCASTSS 4(AX), Y11
	VBROADCASTSS 8(AX), Y12
	VBROADCASTSS 12(AX), Y13
	VFMADD231PS  Y8, Y10, Y0
	VFMADD231PS  Y9, Y10, Y1
	VFMADD231PS  Y8, Y11, Y2
	VFMADD231PS  Y9, Y11, Y3
	VFMADD231PS  Y8, Y12, Y4
	VFMADD231PS  Y9, Y12, Y5
	VFMADD231PS  Y8, Y13, Y6
	VFMADD231PS  Y9, Y13, Y7
	ADDQ         CX, AX
	ADDQ         CX, BX
	DECQ         DX
	JNZ          step

	VADDPS  (DI), Y0, Y0
	VMOVUPS Y0, (DI)
	VADDPS  32(DI), Y1, Y1
	VMOVUPS Y1, 32(DI)
	VADDPS  (DI)(SI*1), Y2, Y2
	VMOVUPS Y2, (DI)(SI*1)
	VADDPS  32(DI)(SI*1), Y3, Y3
	VMOVUPS Y3, 32(DI)(SI*1)
	VADDPS  (R8), Y4, Y4
	VMOVUPS Y4, (R8)
	VADDPS  32(R8), Y5, Y5
	VMOVUPS Y5, 32(R8)
	VADDPS  (R8)(SI*1), Y6, Y6
	VMOVUPS Y6, (R8)(SI*1)
	VADDPS  32(R8)(SI*1), Y7, Y7
	VMOVUPS Y7, 32(R8)(SI*1)
	VZEROUPPER
	RET

// func multiplyTileAVX512(dst *float32, stride int, x, y *float32, ld, steps int)
//
// Like multiplyTileAVX2, with eight rows and one register per row.
TEXT ·multiplyTileAVX512(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ stride+8(FP), SI
	MOVQ x+16(FP), AX
	MOVQ y+24(FP), BX
	MOVQ ld+32(FP), CX
	MOVQ steps+40(FP), DX
	LEAQ (SI)(SI*2), R9
	LEAQ (DI)(SI*4), R8

	VPXORQ Z0, Z0, Z0
	VPXORQ Z1, Z1, Z1
	VPXORQ Z2, Z2, Z2
	VPXORQ Z3, Z3, Z3
	VPXORQ Z4, Z4, Z4
	VPXORQ Z5, Z5, Z5
	VPXORQ Z6, Z6, Z6
	VPXORQ Z7, Z7, Z7

step:
	VMOVUPS          (BX), Z8
	VFMADD231PS.BCST (AX), Z8, Z0
	VFMADD231PS.BCST 4(AX), Z8, Z1
	VFMADD231PS.BCST 8(AX), Z8, Z2
	VFMADD231PS.BCST 12(AX), Z8, Z3
	VFMADD231PS.BCST 16(AX), Z8, Z4
	VFMADD231PS.BCST 20(AX), Z8, Z5
	VFMADD231PS.BCST 24(AX), Z8, Z6
	VFMADD231PS.BCST 28(AX), Z8, Z7
	ADDQ             CX, AX
	ADDQ             CX, BX
	DECQ             DX
	JNZ              step

	VADDPS  (DI), Z0, Z0
	VMOVUPS Z0, (DI)
	VADDPS  (DI)(SI*1), Z1, Z1
	VMOVUPS Z1, (DI)(SI*1)
	VADDPS  (DI)(SI*2), Z2, Z2
	VMOVUPS Z2, (DI)(SI*2)
	VADDPS  (DI)(R9*1), Z3, Z3
	VMOVUPS Z3, (DI)(R9*1)
	VADDPS  (R8), Z4, Z4
	VMOVUPS Z4, (R8)
	VADDPS  (R8)(SI*1), Z5, Z5
	VMOVUPS Z5, (R8)(SI*1)
	VADDPS  (R8)(SI*2), Z6, Z6
	VMOVUPS Z6, (R8)(SI*2)
	VADDPS  (R8)(R9*1), Z7, Z7
	VMOVUPS Z7, (R8)(R9*1)
	VZEROUPPER
	RET

// func packColumnsAVX2(dst *float32, ld int, x *float32, ldx, fours int)
//
// Four numbers of each of eight rows become four columns of eight. The numbers that follow
// in the rows are prefetched for the next iteration.
TEXT ·packColumnsAVX2(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ ld+8(FP), SI
	MOVQ x+16(FP), AX
	MOVQ ldx+24(FP), BX
	MOVQ fours+32(FP), CX
	LEAQ (AX)(BX*4), R8
	LEAQ (BX)(BX*2), R9
	LEAQ (SI)(SI*2), R10
	MOVQ CX, R11
	SHLQ $4, R11
	LEAQ (AX)(R11*1), R12
	LEAQ (R8)(R11*1), R13

four:
	PREFETCHT0  (R12)
	PREFETCHT0  (R12)(BX*1)
	PREFETCHT0  (R12)(BX*2)
	PREFETCHT0  (R12)(R9*1)
	PREFETCHT0  (R13)
	PREFETCHT0  (R13)(BX*1)
	PREFETCHT0  (R13)(BX*2)
	PREFETCHT0  (R13)(R9*1)
	VMOVUPS     (AX), X0
	VINSERTF128 $1, (R8), Y0, Y0
	VMOVUPS     (AX)(BX*1), X1
	VINSERTF128 $1, (R8)(BX*1), Y1, Y1
	VMOVUPS     (AX)(BX*2), X2
	VINSERTF128 $1, (R8)(BX*2), Y2, Y2
	VMOVUPS     (AX)(R9*1), X3
	VINSERTF128 $1, (R8)(R9*1), Y3, Y3
	VUNPCKLPS   Y1, Y0, Y4
	VUNPCKHPS   Y1, Y0, Y5
	VUNPCKLPS   Y3, Y2, Y6
	VUNPCKHPS   Y3, Y2, Y7
	VSHUFPS     $0x44, Y6, Y4, Y0
	VSHUFPS     $0xee, Y6, Y4, Y1
	VSHUFPS     $0x44, Y7, Y5, Y2
	VSHUFPS     $0xee, Y7, Y5, Y3

	VMOVUPS     Y0, (DI)
	VMOVUPS     Y1, (DI)(SI*1)
	VMOVUPS     Y2, (DI)(SI*2)
	VMOVUPS     Y3, (DI)(R10*1)

	ADDQ $16, AX
	ADDQ $16, R8
	ADDQ $16, R12
	ADDQ $16, R13
	LEAQ (DI)(SI*4), DI
	DECQ CX
	JNZ  four
	VZEROUPPER
	RET
