//go:build gpu

package kernels

import (
	"bytes"
	"strings"
	"testing"
)

func TestImageFor_EveryArchitecture(t *testing.T) {
	for _, c := range []struct {
		arch int
		file string
	}{
		{75, "sm_75.cubin"}, {80, "sm_80.cubin"}, {86, "sm_86.cubin"}, {87, "sm_86.cubin"}, {89, "sm_89.cubin"},
		{90, "sm_90.cubin"}, {100, "sm_100.cubin"}, {103, "sm_100.cubin"}, {110, "compute_90.ptx"},
		{120, "sm_120.cubin"}, {121, "sm_120.cubin"}, {130, "compute_90.ptx"},
	} {
		target, err := TargetFor(c.arch)
		if err != nil || target.Image() != c.file {
			t.Errorf("compute capability %d: %q, %v; want %q", c.arch, target.Image(), err, c.file)
		}
		image, err := ImageFor(c.arch)
		if err != nil && strings.Contains(err.Error(), "built without kernels") {
			continue
		}
		if err != nil {
			t.Errorf("compute capability %d: %v", c.arch, err)
		}
		if elf, text := bytes.HasPrefix(image, []byte("\x7fELF")), bytes.Contains(image, []byte(".target sm_90\n")); !elf && !text {
			t.Errorf("compute capability %d: the image is neither a cubin nor PTX", c.arch)
		}
	}
	for _, arch := range []int{0, 61, 70, 72} {
		if _, err := ImageFor(arch); err == nil {
			t.Errorf("compute capability %d has an image", arch)
		}
	}
}
