//go:build noasm || !(amd64 || arm64)

package random

func groups(dst []uint32, s *chachaState) { groupsGeneric(dst, s) }

func boxMullers(dst *[NormalBatch]float32, words *[batchWords]uint32) { boxMullersGeneric(dst, words) }

func rounds(sums *[NormalBatch]int64, words *[roundedWords]uint32, undecided *[NormalBatch / 64]uint64,
	scale, slope, base float32, bits uint64) {
	roundsGeneric(sums, words, undecided, scale, slope, base, bits)
}
