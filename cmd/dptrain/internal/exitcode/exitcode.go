// Package exitcode maps errors to the exit codes that scripts rely on.
//
// [Of] gives the exit code of an error. A command wraps an error in [Error] to choose
// the code itself; the code of every other error follows from its kind.
package exitcode

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/projectbudget"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/modelfile"
	"github.com/dptrain/dptrain/internal/nearest"
)

// The exit codes of dptrain.
const (
	Done        = 0
	Failed      = 1   // the run failed
	Usage       = 2   // bad arguments, configuration or data
	OverBudget  = 3   // the budget does not allow it
	Damaged     = 4   // a ledger or checkpoint fails verification
	Interrupted = 130 // interrupted, with everything saved
)

// Error is an error with an exit code.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Usagef formats an error in the user's arguments, configuration or data.
func Usagef(format string, values ...any) error {
	return &Error{Usage, fmt.Errorf(format, values...)}
}

// AsUsage marks an error as one in the user's arguments, configuration or data, unless
// it already has an exit code other than [Failed].
func AsUsage(err error) error {
	if Of(err) != Failed {
		return err
	}
	return &Error{Usage, err}
}

// AsFailure is for errors of a run that has started: its arguments were valid, so an
// error whose kind suggests a usage error, such as a folder without write permission,
// is a failure. It keeps the code of an [Error].
func AsFailure(err error) error {
	if e := (*Error)(nil); errors.As(err, &e) || Of(err) != Usage {
		return err
	}
	return &Error{Failed, err}
}

// Of returns the exit code of err: the code of the outermost [Error], or the code that
// follows from the error's kind. A failure of the machine is never a usage error.
func Of(err error) int {
	var coded *Error
	var damage *ledger.DamageError
	switch {
	case err == nil:
		return Done
	case errors.As(err, &coded) && (coded.Code != Usage || !machineFailed(err)):
		return coded.Code
	case errors.As(err, &damage), errors.Is(err, engine.ErrDamaged), errors.Is(err, modelfile.ErrWeights),
		errors.Is(err, projectbudget.ErrDamaged):
		return Damaged
	case machineFailed(err):
		return Failed
	case errors.Is(err, engine.ErrBudget), errors.Is(err, projectbudget.ErrExceeded):
		return OverBudget
	case errors.Is(err, accountant.ErrArgument), errors.Is(err, accountant.ErrUnreachable),
		errors.Is(err, ledger.ErrLocked), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrPermission):
		return Usage
	}
	return Failed
}

// machineFailed reports whether the cause of an error is the machine.
func machineFailed(err error) bool {
	return DiskFull(err) || errors.Is(err, engine.ErrCheckpoint) ||
		slices.ContainsFunc([]error{syscall.EIO, syscall.EROFS, syscall.EFBIG, syscall.EMFILE, syscall.ENFILE},
			func(failure error) bool { return errors.Is(err, failure) })
}

// DiskFull reports whether a write failed because the disk, or the user's quota, is full.
func DiskFull(err error) bool {
	const onWindows = syscall.Errno(112) // ERROR_DISK_FULL, which package syscall does not name
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || runtime.GOOS == "windows" && errors.Is(err, onWindows)
}

// CheckChoice returns a usage error if value is not one of the choices of a flag.
func CheckChoice(flag, value string, choices []string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	return UnknownName("--"+flag, value, choices)
}

// UnknownName returns a usage error that lists the choices and suggests the nearest.
func UnknownName(subject, name string, choices []string) error {
	hint := ""
	if near := nearest.LikelyTypo(name, choices); near != "" {
		hint = fmt.Sprintf("did you mean %s? ", near)
	}
	return Usagef("%s %q is unknown: %schoose from %s", subject, name, hint, strings.Join(choices, ", "))
}
