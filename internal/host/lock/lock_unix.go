//go:build unix && !aix && !solaris

package lock

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// TryLock locks the file until it is closed or the process ends. It returns [ErrLocked] if
// the file is already locked. Readers are not blocked.
func TryLock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrLocked
		case err != nil:
			return fmt.Errorf("the file system cannot lock the file: %w", err)
		}
		return nil
	}
}
