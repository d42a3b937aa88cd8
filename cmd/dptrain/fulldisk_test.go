package main

import (
	"io/fs"
	"runtime"
	"syscall"
	"testing"
)

// A full disk is no fault of what was asked for, whatever the system calls it.
func TestFullDiskIsNoWrongArgument(t *testing.T) {
	for number, full := range map[syscall.Errno]bool{syscall.ENOSPC: true, 112: runtime.GOOS == "windows", syscall.ENOENT: false} {
		err := asWrong(&fs.PathError{Op: "write", Path: "x", Err: number})
		if got := exitCode(err) == exitFailed; got != full {
			t.Errorf("%v: exit code %d", number, exitCode(err))
		}
	}
}
