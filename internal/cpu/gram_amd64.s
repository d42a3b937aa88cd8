//go:build !noasm

#include "textflag.h"

// func gramTileAVX2(dst *float64, stride int, x, y *float64, ld, steps int)
//
// Y0 to Y7 are the tile, two registers a row. A step reads eight numbers of y
// and four of x: eight multiply-adds for six loads.
TEXT ·gramTileAVX2(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ stride+8(FP), SI
	MOVQ x+16(FP), AX
	MOVQ y+24(FP), BX
	MOVQ ld+32(FP), CX
	MOVQ steps+40(FP), DX
	LEAQ (DI)(SI*2), R8

	VMOVUPD (DI), Y0
	VMOVUPD 32(DI), Y1
	VMOVUPD (DI)(SI*1), Y2
	VMOVUPD 32(DI)(SI*1), Y3
	VMOVUPD (R8), Y4
	VMOVUPD 32(R8), Y5
	VMOVUPD (R8)(SI*1), Y6
	VMOVUPD 32(R8)(SI*1), Y7

step:
	VMOVUPD      (BX), Y8
	VMOVUPD      32(BX), Y9
	VBROADCASTSD (AX), Y10
	VBROADCASTSD 8(AX), Y11
	VBROADCASTSD 16(AX), Y12
	VBROADCASTSD 24(AX), Y13
	VFMADD231PD  Y8, Y10, Y0
	VFMADD231PD  Y9, Y10, Y1
	VFMADD231PD  Y8, Y11, Y2
	VFMADD231PD  Y9, Y11, Y3
	VFMADD231PD  Y8, Y12, Y4
	VFMADD231PD  Y9, Y12, Y5
	VFMADD231PD  Y8, Y13, Y6
	VFMADD231PD  Y9, Y13, Y7
	ADDQ         CX, AX
	ADDQ         CX, BX
	DECQ         DX
	JNZ          step

	VMOVUPD Y0, (DI)
	VMOVUPD Y1, 32(DI)
	VMOVUPD Y2, (DI)(SI*1)
	VMOVUPD Y3, 32(DI)(SI*1)
	VMOVUPD Y4, (R8)
	VMOVUPD Y5, 32(R8)
	VMOVUPD Y6, (R8)(SI*1)
	VMOVUPD Y7, 32(R8)(SI*1)
	VZEROUPPER
	RET

// func widenAVX2(dst *float64, src *float32, fours int)
TEXT ·widenAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ fours+16(FP), CX

four:
	VCVTPS2PD (SI), Y0
	VMOVUPD   Y0, (DI)
	ADDQ      $16, SI
	ADDQ      $32, DI
	DECQ      CX
	JNZ       four
	VZEROUPPER
	RET

// func gramTileAVX512(dst *float64, stride int, x, y *float64, ld, steps int)
//
// As gramTileAVX2, of eight rows, one register a row.
TEXT ·gramTileAVX512(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ stride+8(FP), SI
	MOVQ x+16(FP), AX
	MOVQ y+24(FP), BX
	MOVQ ld+32(FP), CX
	MOVQ steps+40(FP), DX
	LEAQ (SI)(SI*2), R9
	LEAQ (DI)(SI*4), R8

	VMOVUPD (DI), Z0
	VMOVUPD (DI)(SI*1), Z1
	VMOVUPD (DI)(SI*2), Z2
	VMOVUPD (DI)(R9*1), Z3
	VMOVUPD (R8), Z4
	VMOVUPD (R8)(SI*1), Z5
	VMOVUPD (R8)(SI*2), Z6
	VMOVUPD (R8)(R9*1), Z7

step:
	VMOVUPD          (BX), Z8
	VFMADD231PD.BCST (AX), Z8, Z0
	VFMADD231PD.BCST 8(AX), Z8, Z1
	VFMADD231PD.BCST 16(AX), Z8, Z2
	VFMADD231PD.BCST 24(AX), Z8, Z3
	VFMADD231PD.BCST 32(AX), Z8, Z4
	VFMADD231PD.BCST 40(AX), Z8, Z5
	VFMADD231PD.BCST 48(AX), Z8, Z6
	VFMADD231PD.BCST 56(AX), Z8, Z7
	ADDQ             CX, AX
	ADDQ             CX, BX
	DECQ             DX
	JNZ              step

	VMOVUPD Z0, (DI)
	VMOVUPD Z1, (DI)(SI*1)
	VMOVUPD Z2, (DI)(SI*2)
	VMOVUPD Z3, (DI)(R9*1)
	VMOVUPD Z4, (R8)
	VMOVUPD Z5, (R8)(SI*1)
	VMOVUPD Z6, (R8)(SI*2)
	VMOVUPD Z7, (R8)(R9*1)
	VZEROUPPER
	RET

// func gramColumnsAVX2(dst *float64, ld int, x *float32, ldx, fours int)
//
// Four numbers of eight rows become four columns of eight. What follows in the
// rows is fetched: it is wanted next.
TEXT ·gramColumnsAVX2(SB), NOSPLIT, $0-40
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

	VCVTPS2PD    X0, Y4
	VEXTRACTF128 $1, Y0, X8
	VCVTPS2PD    X8, Y8
	VMOVUPD      Y4, (DI)
	VMOVUPD      Y8, 32(DI)
	VCVTPS2PD    X1, Y5
	VEXTRACTF128 $1, Y1, X9
	VCVTPS2PD    X9, Y9
	VMOVUPD      Y5, (DI)(SI*1)
	VMOVUPD      Y9, 32(DI)(SI*1)
	VCVTPS2PD    X2, Y6
	VEXTRACTF128 $1, Y2, X10
	VCVTPS2PD    X10, Y10
	VMOVUPD      Y6, (DI)(SI*2)
	VMOVUPD      Y10, 32(DI)(SI*2)
	VCVTPS2PD    X3, Y7
	VEXTRACTF128 $1, Y3, X11
	VCVTPS2PD    X11, Y11
	VMOVUPD      Y7, (DI)(R10*1)
	VMOVUPD      Y11, 32(DI)(R10*1)

	ADDQ $16, AX
	ADDQ $16, R8
	ADDQ $16, R12
	ADDQ $16, R13
	LEAQ (DI)(SI*4), DI
	DECQ CX
	JNZ  four
	VZEROUPPER
	RET
