//go:build !noasm

package random

import "golang.org/x/sys/cpu"

type instructionSet int

const (
	pureGo instructionSet = iota
	avx2
	avx512
)

// widestSet is the widest instruction set of this processor. All sets give the same bits.
var widestSet = func() instructionSet {
	switch {
	case cpu.X86.HasAVX512F:
		return avx512
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return avx2
	}
	return pureGo
}()

// groups computes what groupsGeneric does. len(dst) is a positive multiple of groupWords.
func groups(dst []uint32, s *chachaState) {
	switch widestSet {
	case avx512:
		groupsAVX512(&dst[0], (*[16]uint32)(s), len(dst)/groupWords)
	case avx2:
		groupsAVX2(&dst[0], (*[16]uint32)(s), len(dst)/groupWords)
	default:
		groupsGeneric(dst, s)
	}
}

// boxMullers computes what boxMullersGeneric does.
func boxMullers(dst *[NormalBatch]float32, words *[batchWords]uint32) {
	switch widestSet {
	case avx512:
		boxMullersAVX512(dst, words)
	case avx2:
		boxMullersAVX2(dst, words)
	default:
		boxMullersGeneric(dst, words)
	}
}

// rounds computes what roundsGeneric does, up to which values are decided.
func rounds(sums *[NormalBatch]int64, words *[roundedWords]uint32, undecided *[NormalBatch / 64]uint64,
	scale, slope, base float32, bits uint64) {
	switch widestSet {
	case avx512:
		roundsAVX512(sums, words, undecided, scale, slope, base, bits)
	case avx2:
		roundsAVX2(sums, words, undecided, scale, slope, base, bits)
	default:
		roundsGeneric(sums, words, undecided, scale, slope, base, bits)
	}
}
