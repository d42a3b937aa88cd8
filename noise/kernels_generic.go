//go:build noasm || !(amd64 || arm64)

package noise

func groups(dst []uint32, s *chachaState) { groupsGeneric(dst, s) }

func boxMullers(dst *[NormalBatch]float32, words *[batchWords]uint32) { boxMullersGeneric(dst, words) }
