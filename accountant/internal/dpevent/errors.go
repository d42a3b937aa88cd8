package dpevent

import (
	"errors"
	"fmt"
)

// ErrInvalid is wrapped by errors about invalid input.
var ErrInvalid = errors.New("bad argument")

type kindError struct {
	error
	kind error
}

func (e *kindError) Unwrap() []error { return []error{e.error, e.kind} }

// NewError returns an error that wraps kind without stating it in the message. The verb %w wraps a cause.
func NewError(kind error, format string, values ...any) error {
	return &kindError{fmt.Errorf(format, values...), kind}
}

// InvalidArgument returns an error that wraps ErrInvalid.
func InvalidArgument(format string, values ...any) error {
	return NewError(ErrInvalid, format, values...)
}
