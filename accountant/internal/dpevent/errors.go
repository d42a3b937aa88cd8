package dpevent

import (
	"errors"
	"fmt"
)

// ErrInvalid is wrapped by errors about invalid input.
var ErrInvalid = errors.New("bad argument")

type kindError struct {
	message string
	kind    error
}

func (e *kindError) Error() string { return e.message }
func (e *kindError) Unwrap() error { return e.kind }

// NewError returns an error that wraps kind without stating it in the message.
func NewError(kind error, format string, values ...any) error {
	return &kindError{fmt.Sprintf(format, values...), kind}
}

// InvalidArgument returns an error that wraps ErrInvalid.
func InvalidArgument(format string, values ...any) error {
	return NewError(ErrInvalid, format, values...)
}
