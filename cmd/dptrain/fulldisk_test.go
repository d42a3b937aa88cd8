package main

import (
	"io/fs"
	"runtime"
	"syscall"
	"testing"
)

// A machine that fails is no fault of what was asked for, whatever was being done with it,
// and whatever the system calls it.
func TestFailedMachineIsNoWrongArgument(t *testing.T) {
	for number, failed := range map[syscall.Errno]bool{
		syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EIO: true, syscall.EROFS: true, syscall.EFBIG: true, syscall.EMFILE: true, syscall.ENFILE: true,
		112: runtime.GOOS == "windows", syscall.ENOENT: false, syscall.EACCES: false, syscall.ENOTDIR: false,
	} {
		err := error(&fs.PathError{Op: "write", Path: "x", Err: number})
		for _, err := range []error{asWrong(err), wrong("--out x: %w", err), asWrong(wrong("--out x: %w", err)), asFailed(wrong("--out x: %w", err))} {
			if got := exitCode(err) == exitFailed; got != failed {
				t.Errorf("%v: exit code %d", number, exitCode(err))
			}
		}
	}
}
