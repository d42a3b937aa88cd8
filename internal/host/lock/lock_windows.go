package lock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// TryLock locks the file until it is closed or the process ends. It returns [ErrLocked] if
// the file is already locked. Windows blocks reads of locked bytes,
// so the lock covers one byte far beyond the end of the file. Readers are not blocked.
func TryLock(f *os.File) error {
	beyond := windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &beyond)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}
