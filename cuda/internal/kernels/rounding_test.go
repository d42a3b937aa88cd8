//go:build gpu

package kernels

import (
	"bytes"
	"regexp"
	"testing"
)

// Kernels that must have the same bits on the CPU and on a GPU round after each operation.
// Their PTX has no fused operation, and none that ptxas may fuse, which is one without a
// rounding modifier. The emulated device cannot show this: it fuses nothing.
func TestKernels_FuseNothing(t *testing.T) {
	code := compiled(t, "compute_90.ptx")
	if code == nil {
		t.Skip("this program contains no compiled PTX")
	}
	arithmetic := regexp.MustCompile(`\b(?:add|sub|mul|div|sqrt|rcp|fma|mad)(?:\.\w+)*\.f(?:32|64)\b`)
	rounded := regexp.MustCompile(`^(?:add|sub|mul|div|sqrt)\.rn\.f(?:32|64)$`)
	for _, kernel := range []string{"release", "clip_factors"} {
		_, body, ok := bytes.Cut(code, []byte(".entry "+kernel+"("))
		if !ok {
			t.Fatalf("there is no kernel %s", kernel)
		}
		body, _, _ = bytes.Cut(body, []byte(".entry "))
		found := arithmetic.FindAll(body, -1)
		if len(found) < 20 {
			t.Errorf("%s: %d operations are found", kernel, len(found))
		}
		for _, operation := range found {
			if !rounded.Match(operation) {
				t.Errorf("%s: %s", kernel, operation)
			}
		}
	}
}
