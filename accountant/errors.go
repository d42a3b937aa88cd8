package accountant

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var (
	// ErrArgument is what errors about bad input unwrap to.
	ErrArgument = errors.New("bad argument")
	// ErrUnreachable is what an error unwraps to when the input is sound but no
	// answer exists: a target that no noise, rate or number of steps meets. Its
	// message says the nearest that can be reached.
	ErrUnreachable = errors.New("unreachable target")
)

type kindOfError struct {
	message string
	kind    error
}

func (e *kindOfError) Error() string { return e.message }
func (e *kindOfError) Unwrap() error { return e.kind }

func badArgument(format string, values ...any) error {
	return &kindOfError{fmt.Sprintf(format, values...), ErrArgument}
}

func unreachable(format string, values ...any) error {
	return &kindOfError{fmt.Sprintf(format, values...), ErrUnreachable}
}

// written is δ as people write it: 1e-5 rather than 1e-05.
func written(delta float64) string {
	return strings.Replace(strconv.FormatFloat(delta, 'g', -1, 64), "e-0", "e-", 1)
}
