//go:build !noasm

package noise

// Every 64-bit processor has NEON. The kernels give the same bits as pure Go.

// groups computes what groupsGeneric does. len(dst) is a positive multiple of groupWords.
func groups(dst []uint32, s *chachaState) {
	groupsNEON(&dst[0], (*[16]uint32)(s), len(dst)/groupWords)
}

// boxMullers computes what boxMullersGeneric does.
func boxMullers(dst *[NormalBatch]float32, words *[batchWords]uint32) { boxMullersNEON(dst, words) }
