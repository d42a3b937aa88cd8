//go:build !windows && (!unix || aix || solaris)

package lock

import (
	"errors"
	"os"
)

// TryLock always fails: without a lock, two writers could corrupt the file.
func TryLock(*os.File) error {
	return errors.New("dptrain supports no file lock on this system")
}
