//go:build unix

package tokenizer

import (
	"syscall"
	"testing"
)

// processorTime returns the processor time of this process in seconds.
func processorTime(t *testing.T) float64 {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	seconds := func(v syscall.Timeval) float64 { return float64(v.Sec) + float64(v.Usec)/1e6 }
	return seconds(used.Utime) + seconds(used.Stime)
}
