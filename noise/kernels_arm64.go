//go:build !noasm

package noise

// Every processor of 64 bits has NEON, which gives the bits of pure Go.

// groups is groupsGeneric. len(dst) is a positive multiple of groupWords.
func groups(dst []uint32, s *chachaState) {
	groupsNEON(&dst[0], (*[16]uint32)(s), len(dst)/groupWords)
}

// boxMullers is boxMullersGeneric.
func boxMullers(dst *[NormalBatch]float32, words *[batchWords]uint32) { boxMullersNEON(dst, words) }
