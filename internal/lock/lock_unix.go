//go:build unix && !aix && !solaris

package lock

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// File takes the file for one holder until it is closed, by the process or by its
// death; one that is held is [ErrHeld]. Readers are not hindered.
func File(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrHeld
		case err != nil:
			return fmt.Errorf("the file system cannot lock it: %w", err)
		}
		return nil
	}
}
