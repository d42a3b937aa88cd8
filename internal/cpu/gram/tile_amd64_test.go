//go:build !noasm

package gram

import "testing"

// The tile of AVX2, where AVX-512 is there to be preferred.
func TestGramTileAVX2(t *testing.T) {
	if !avx512 {
		t.Skip("TestGramTile runs it")
	}
	avx512 = false
	defer func() { avx512 = true }()
	TestGramTile(t)
}
