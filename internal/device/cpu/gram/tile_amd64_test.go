//go:build !noasm

package gram

import "testing"

// The AVX2 kernel is also correct on processors that use the AVX-512 kernel.
func TestMultiplyTile_AVX2(t *testing.T) {
	if !avx512 {
		t.Skip("TestMultiplyTile_AgreesWithGo tests it")
	}
	avx512 = false
	defer func() { avx512 = true }()
	TestMultiplyTile_AgreesWithGo(t)
}
