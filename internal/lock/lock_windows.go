package lock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// File takes the file for one holder until it is closed, by the process or by its
// death; one that is held is [ErrHeld]. Windows forbids reading what is locked, so
// the lock covers one byte far beyond the end, and readers are not hindered.
func File(f *os.File) error {
	beyond := windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &beyond)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrHeld
	}
	return err
}
