// Package terminal prints the results, notes and progress of a command.
//
// Results go to standard output. Notes and progress go to standard error, so that a script
// can read the result alone.
package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
)

// Terminal is what a command reads and where it prints.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer
	JSON     bool // print results as one JSON object
	Quiet    bool // print the bare result, and no notes or progress; warnings are printed

	warnings []string
}

// HasInput reports whether a file or another program is the standard input, and not a person.
func (t *Terminal) HasInput() bool {
	f, isFile := t.In.(*os.File)
	return t.In != nil && !(isFile && term.IsTerminal(int(f.Fd())))
}

// Print prints a result: value as one JSON object under --json, the line bare under
// --quiet, and otherwise the text that the function writes. A tab in that text separates
// aligned columns.
func (t *Terminal) Print(value any, bare string, text func(w io.Writer)) error {
	switch {
	case t.JSON:
		b, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(t.Out, "%s\n", t.addWarnings(b))
		return err
	case t.Quiet:
		_, err := fmt.Fprintln(t.Out, bare)
		return err
	}
	w := tabwriter.NewWriter(t.Out, 0, 8, 2, ' ', 0)
	text(w)
	return w.Flush()
}

// warningsKey is the key of the warnings in a JSON object that Print writes.
const warningsKey = "\n  \"warnings\": "

// addWarnings adds the warnings so far to an indented JSON object that does not contain them.
func (t *Terminal) addWarnings(object []byte) []byte {
	body, isObject := bytes.CutSuffix(object, []byte("\n}"))
	if len(t.warnings) == 0 || !isObject || bytes.Contains(object, []byte(warningsKey)) {
		return object
	}
	list, err := json.MarshalIndent(t.warnings, "  ", "  ")
	if err != nil {
		return object // a list of strings always has a representation
	}
	return slices.Concat(body, []byte(","+warningsKey), list, []byte("\n}"))
}

// Warn prints a line on standard error, also under --quiet: a restriction of the guarantee, or a
// reason not to rely on the result. A JSON object that Print writes contains it under warnings.
func (t *Terminal) Warn(format string, values ...any) {
	text := fmt.Sprintf(format, values...)
	t.warnings = append(t.warnings, text)
	fmt.Fprintf(t.Err, "Warning: %s.\n", text)
}

// Warnings returns the warnings so far.
func (t *Terminal) Warnings() []string { return append([]string{}, t.warnings...) }

// Note prints a line on standard error, unless --quiet was given.
func (t *Terminal) Note(format string, values ...any) {
	if !t.Quiet {
		fmt.Fprintf(t.Err, format+"\n", values...)
	}
}

// NoteDelay is the delay before a progress note is printed.
var NoteDelay = 3 * time.Second

// Await calls do. If do runs for longer than NoteDelay, Await prints the activity.
func Await[T any](t *Terminal, activity string, do func() (T, error)) (T, error) {
	done, noted := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(noted)
		select {
		case <-done:
		case <-time.After(NoteDelay):
			t.Note("%s …", activity)
		}
	}()
	defer func() { close(done); <-noted }()
	return do()
}

// Columns is the width for text on standard output: that of the terminal, at most 120, or
// 100 if standard output is not a terminal.
func (t *Terminal) Columns() int {
	if f, ok := terminalFile(t.Out); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return min(width, 120)
		}
	}
	return 100
}

// terminalFile returns the file behind w if it is a terminal.
func terminalFile(w io.Writer) (f *os.File, ok bool) {
	f, ok = w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}
