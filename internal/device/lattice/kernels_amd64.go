//go:build !noasm

package lattice

import "golang.org/x/sys/cpu"

// assembly lists the implementations that this processor can run.
func assembly() []*kernels {
	x := &cpu.X86
	if !(x.HasAVX2 && x.HasFMA && x.HasBMI2) {
		return nil
	}
	list := []*kernels{{
		name: "avx2", rounding: avx2, wholeBlocks: true, lanes: 8, depth: 2, mr: 6, nr: 16,
		tile: tileAVX2, direct: directAVX2, interleave: interleaveAVX2, columns: columnsAVX2,
		transpose8: transpose8AVX2, copyRuns: [2]copyRunsFunc{copyRuns4AVX2, copyRuns8AVX2},
		addToRows: addToRowsAVX2, addInts: addIntsAVX2, innerProduct: innerProductAVX2, sumSquares: sumSquaresAVX2,
		scaleInts: scaleIntsAVX2, settle: settleAVX2, readSums: readSumsAVX2,
	}}
	if !(x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL) {
		return list
	}
	list = append(list, &kernels{
		name: "avx512", rounding: avx512, lanes: 16, depth: 2, mr: 12, nr: 32,
		tile: tileAVX512, direct: directAVX512, interleave: interleaveAVX512, columns: columnsAVX2,
		transpose8: transpose8AVX2, copyRuns: [2]copyRunsFunc{copyRuns4AVX2, copyRuns8AVX2},
		addToRows: addToRowsAVX512, addInts: addIntsAVX512, innerProduct: innerProductAVX512, sumSquares: sumSquaresAVX512,
		addShortRows: addShortRowsAVX512, scaleInts: scaleIntsAVX512, settle: settleAVX2, readSums: readSumsAVX2,
	})
	if x.HasAVX512VNNI {
		vnni := *list[1]
		vnni.name, vnni.vnni, vnni.tile, vnni.direct = "avx512vnni", true, tileVNNI, directVNNI
		list = append(list, &vnni)
	}
	return list
}

func (k *kernels) quantize(dst *int16, x *float32, n int, scale float32, start, step uint32) uint64 {
	if k.rounding == avx2 {
		return quantizeAVX2(dst, x, n, scale, start, step)
	}
	return quantizeGo(dst, x, n, scale, start, step)
}

func (k *kernels) round(dst *int32, x *float32, n int, scale float32, start, step uint32) (sum uint64, largest uint32) {
	if k.rounding == avx2 {
		return roundAVX2(dst, x, n, scale, start, step)
	}
	return roundGo(dst, x, n, scale, start, step)
}

func (k *kernels) quantizeAll(dst []int16, x []float32, width int, scales []float32, keys []Key, squares []int64) {
	if k.vnni {
		quantizeVNNI(&dst[0], &x[0], width, &scales[0], (*uint64)(&keys[0]), &squares[0], len(squares))
		return
	}
	quantizeAVX512(&dst[0], &x[0], width, &scales[0], (*uint64)(&keys[0]), &squares[0], len(squares))
}

func roundAll(dst []int32, x []float32, width int, scales []float32, keys []Key, squares []int64) {
	roundAVX512(&dst[0], &x[0], width, &scales[0], (*uint64)(&keys[0]), &squares[0], len(squares))
}
