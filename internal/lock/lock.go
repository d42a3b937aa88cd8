// Package lock lets one process at a time have a file.
package lock

import "errors"

// ErrHeld says that another process, or another part of this one, has the file.
var ErrHeld = errors.New("another process holds it")
