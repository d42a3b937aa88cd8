package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"github.com/dptrain/dptrain/internal/report"
)

// screen is where commands print: results on out, everything else on err.
type screen struct {
	out, err    io.Writer
	json, quiet bool
}

// show prints a result: value as one JSON object under --json, bare as a line
// under --quiet, and what text writes otherwise. text may align columns with tabs.
func (s *screen) show(value any, bare string, text func(w io.Writer)) error {
	switch {
	case s.json:
		b, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.out, "%s\n", b)
		return err
	case s.quiet:
		_, err := fmt.Fprintln(s.out, bare)
		return err
	}
	w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
	text(w)
	return w.Flush()
}

// note tells the user something beside the result.
func (s *screen) note(format string, values ...any) {
	if !s.quiet {
		fmt.Fprintf(s.err, format+"\n", values...)
	}
}

// patience is how long nothing may be seen to happen.
var patience = 3 * time.Second

// patiently does something, and says what where it takes long.
func patiently[T any](s *screen, what string, do func() (T, error)) (T, error) {
	done, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		select {
		case <-done:
		case <-time.After(patience):
			s.note("%s …", what)
		}
	}()
	defer func() { close(done); <-told }()
	return do()
}

// number is a float64 as JSON can hold it: infinity is the string "Infinity", and
// what is not known, or no number, is null.
type number float64

func (x number) MarshalJSON() ([]byte, error) {
	switch {
	case math.IsInf(float64(x), 1):
		return []byte(`"Infinity"`), nil
	case math.IsNaN(float64(x)):
		return []byte("null"), nil
	}
	return json.Marshal(float64(x))
}

// What is printed must not promise more privacy than there is.
var (
	roundUp   = report.RoundUp
	roundDown = report.RoundDown
)
