// Package lock gives one process at a time exclusive access to a file.
package lock

import "errors"

// ErrLocked is returned if another process, or another open file of this process, owns the lock.
var ErrLocked = errors.New("another process holds it")
