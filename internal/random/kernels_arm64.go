//go:build !noasm

package random

// Every 64-bit processor has NEON. The kernels give the same bits as pure Go.

// groups computes what groupsGeneric does. len(dst) is a positive multiple of groupWords.
func groups(dst []uint32, s *chachaState) {
	groupsNEON(&dst[0], (*[16]uint32)(s), len(dst)/groupWords)
}

// boxMullers computes what boxMullersGeneric does.
func boxMullers(dst *[NormalBatch]float32, words *[batchWords]uint32) { boxMullersNEON(dst, words) }

// rounds computes what roundsGeneric does, up to which values are decided.
func rounds(sums *[NormalBatch]int64, words *[roundedWords]uint32, undecided *[NormalBatch / 64]uint64,
	scale, slope, base float32, bits uint64) {
	roundsNEON(sums, words, undecided, scale, slope, base, bits)
}
