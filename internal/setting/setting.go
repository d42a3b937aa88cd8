// Package setting has the errors with which a library refuses a setting.
//
// A library does not know where its user gives a setting: in a field of Go, in a flag or in a key of a
// file. Its messages contain references to settings, and [Describe] writes them as the user knows them.
package setting

import (
	"errors"
	"fmt"
	"strings"
)

// Ref refers to a setting in a message, alone or with a value.
//
// The name is that of the field in Go, such as Mechanism.Arithmetic of an engine.Config, or of the key in
// a schema, such as bounds.
type Ref struct{ Name, Value string }

// Named refers to a setting.
func Named(name string) Ref { return Ref{Name: name} }

// With refers to a setting with a value.
func With(name string, value any) Ref { return Ref{name, fmt.Sprint(value)} }

// String returns the name and the value as a message of a library has them.
func (r Ref) String() string { return strings.TrimSuffix(r.Name+" "+r.Value, " ") }

// Text is a text with references to settings.
type Text struct {
	format string
	values []any
}

// Textf formats a text. A [Ref] among the values is written as its reader knows it.
func Textf(format string, values ...any) Text { return Text{format, values} }

// String returns the text with the names of the library.
func (t Text) String() string { return t.Naming(Ref.String) }

// Naming returns the text with other names of settings.
func (t Text) Naming(name func(Ref) string) string {
	values := make([]any, len(t.values))
	for i, v := range t.values {
		if r, is := v.(Ref); is {
			v = name(r)
		}
		values[i] = v
	}
	return fmt.Errorf(t.format, values...).Error()
}

// Error refuses a setting: what is wrong, where, and what to do.
type Error struct {
	Setting string // the name of the setting that is wrong or not given
	Text
	cause error // of %w; nil without it
}

// Errorf formats an error in a setting, as [Textf] does. The verb %w wraps a cause.
func Errorf(setting, format string, values ...any) error {
	return &Error{setting, Textf(format, values...), errors.Unwrap(fmt.Errorf(format, values...))}
}

func (e *Error) Error() string { return e.String() }

func (e *Error) Unwrap() error { return e.cause }

// Describe returns the message of err, in which name writes the settings.
func Describe(err error, name func(Ref) string) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	for _, e := range settingErrors(err) {
		text = strings.Replace(text, e.Error(), e.Naming(name), 1)
	}
	return text
}

// settingErrors returns all errors in settings that err wraps, from the outermost to the innermost.
func settingErrors(err error) (found []*Error) {
	if e, is := err.(*Error); is {
		found = append(found, e)
	}
	switch wrapper := err.(type) {
	case interface{ Unwrap() error }:
		if inner := wrapper.Unwrap(); inner != nil {
			found = append(found, settingErrors(inner)...)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range wrapper.Unwrap() {
			found = append(found, settingErrors(inner)...)
		}
	}
	return found
}
