package exitcode

import (
	"io/fs"
	"runtime"
	"syscall"
	"testing"
)

// A failure of the machine is not a usage error, whichever operation it interrupts and
// whichever name the system gives it.
func TestOf_MachineFailure(t *testing.T) {
	for number, failed := range map[syscall.Errno]bool{
		syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EIO: true, syscall.EROFS: true, syscall.EFBIG: true, syscall.EMFILE: true, syscall.ENFILE: true,
		112: runtime.GOOS == "windows", syscall.ENOENT: false, syscall.EACCES: false, syscall.ENOTDIR: false,
	} {
		err := error(&fs.PathError{Op: "write", Path: "x", Err: number})
		for _, err := range []error{AsUsage(err), Usagef("--out x: %w", err), AsUsage(Usagef("--out x: %w", err)), AsFailure(Usagef("--out x: %w", err))} {
			if got := Of(err) == Failed; got != failed {
				t.Errorf("%v: exit code %d", number, Of(err))
			}
		}
	}
}
