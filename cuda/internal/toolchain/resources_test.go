package main

import (
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cuda/internal/kernels"
)

const output = `ptxas info    : 24 bytes gmem
ptxas info    : Compiling entry function 'sums' for 'sm_90'
ptxas info    : Function properties for sums
ptxas         .     16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 2048 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 57.108 ms
ptxas info    : Compiling entry function 'copy' for 'sm_90'
ptxas info    : Function properties for copy
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
`

func TestResources_Table(t *testing.T) {
	table, spills, err := resources([]image{{target: kernels.Targets[0], log: output}, {target: kernels.Targets[len(kernels.Targets)-1]}})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"| kernel | sm_75 | shared | local |\n",
		"| `copy` | 8 | 0 |  |\n",
		"| `sums` | 40 | 2048 | sm_75: 16, 4, 8 |\n",
	} {
		if !strings.Contains(string(table), row) {
			t.Errorf("no row %q in\n%s", row, table)
		}
	}
	if spills == nil || !strings.Contains(spills.Error(), "sums on sm_75;") {
		t.Errorf("spills: %v", spills)
	}
	if _, _, err := resources([]image{{target: kernels.Targets[0]}}); err == nil {
		t.Error("an empty log is accepted")
	}
	lacking := strings.ReplaceAll(output, "'copy'", "'other'")
	if _, _, err := resources([]image{{target: kernels.Targets[0], log: output}, {target: kernels.Targets[1], log: lacking}}); err == nil {
		t.Error("a kernel that one architecture lacks is accepted")
	}
}
