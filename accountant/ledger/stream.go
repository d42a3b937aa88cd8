package ledger

import (
	"fmt"
	"io"
)

// NewWriter begins a ledger on w, for a page in a browser and for tests, which have no file. It
// draws a run identifier in place of h.Run.
//
// Its promise is weaker than that of [Create]: if Spend returns nil, w has accepted a line that
// states the lot. Nothing is synced, nothing is locked, and nothing survives the process unless w
// keeps it. After a crash such a ledger may state less than what was released. Close does not
// close w. [Parse] reads what was written.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	h, err := beginHeader(h)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	l := &Writer{path: "of a writer", write: w.Write, sync: func() error { return nil }, ahead: MaxLots}
	if err := l.append(entry{kind: headerLine, header: h}); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return l, nil
}

// Parse reads a ledger as [Verify] and [Read] do: no line of it was changed, removed, moved or
// truncated, or the error is a *DamageError.
func Parse(r io.Reader) (History, Summary, error) {
	s, err := scan(r)
	if err == nil && s.tail.size > 0 {
		err = &DamageError{s.chain.lines + 1, "the last line is truncated"}
	}
	if err != nil {
		return History{}, Summary{}, fmt.Errorf("ledger: %w", err)
	}
	return s.history(), s.summary(), nil
}
