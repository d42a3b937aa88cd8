//go:build noasm || !(amd64 || arm64)

package noise

func groups(dst []uint32, s *state) { groupsGeneric(dst, s) }

func boxMullers(dst *[Grain]float32, words *[grainWords]uint32) { boxMullersGeneric(dst, words) }
