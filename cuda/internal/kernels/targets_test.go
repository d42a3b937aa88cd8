package kernels

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseTargets(t *testing.T) {
	for list, want := range map[string]string{
		"sm_90,ptx": "[sm_90 ptx]", "ptx,sm_87": "[sm_86 ptx]", "sm_89,sm_75,sm_89": "[sm_75 sm_89]", "sm_121": "[sm_120]",
		"sm_110": "[ptx]", "all": "[sm_75 sm_80 sm_86 sm_89 sm_90 sm_100 sm_120 ptx]",
	} {
		if got, err := ParseTargets(list); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v (%v), want %s", list, got, err, want)
		}
	}
	for list, want := range map[string]string{"": `the target "" is unknown`, "sm90": `"sm90" is unknown`, "sm_70": "the oldest is 7.5", "sm_90,,ptx": "unknown"} {
		if got, err := ParseTargets(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", list, got, err)
		}
	}
}
