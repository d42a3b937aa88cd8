//go:build !noasm

package random

import "testing"

// eachSet runs the test for each instruction set of this processor.
func eachSet(t testing.TB, run func(t testing.TB, set string)) {
	widest := widestSet
	defer func() { widestSet = widest }()
	for set, name := range map[instructionSet]string{avx2: "AVX2", avx512: "AVX512"} {
		if set > widest {
			t.Logf("this processor has no %s", name)
			continue
		}
		widestSet = set
		run(t, name)
	}
}
