package ledger

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
)

// DamageError is the place and the reason of the first invalid line of a ledger.
type DamageError struct {
	Line   int // counted from 1, which is the header
	Reason string
}

func (d *DamageError) Error() string { return fmt.Sprintf("line %d: %s", d.Line, d.Reason) }

// Summary is the result of Verify.
type Summary struct {
	Entries int    // lines, including the header
	Lots    int    // lots spent, including reserved ones
	Runs    int    // runs that wrote to this ledger
	Head    string // hash of the last line; compare it to detect lines missing at the end
	Run     string // identifier of the run in the header
	Process string // identifier of the last process that wrote to the ledger
	Weights string // SHA-256 of the released weights if the last line states it, or ""
	Budget  string // identity of the project budget that counts the cost, or ""
	Ended   bool   // the last run returned its unused lots; if false, it was killed, is running, or lines are missing at the end
	// Complete: the last run ended because its plan or its limit on ε ended, which no release decides. If
	// it is false, the cost can be that of the plan. Versions before 5 do not state it.
	Complete bool
}

// Read returns the lots that a ledger states. The ledger may be in use by a Writer, and
// another program may have written it. A truncated last line counts as the most that it
// may have stated (see FORMAT.md), so the result is never less than what was released, as
// long as the disk kept what it reported as synced. If another line is invalid, the error
// is a *DamageError.
func Read(path string) (History, error) {
	s, err := scanFile(path, digest{})
	if err != nil {
		return History{}, err
	}
	return s.history(), nil
}

// ContainsHead reports whether a ledger has a line whose SHA-256 is head, in hexadecimal.
// An earlier head, recorded elsewhere, shows that no line up to it is missing.
func ContainsHead(path, head string) (bool, error) {
	sought, err := hex.DecodeString(head)
	if err != nil || len(sought) != len(digest{}) {
		return false, nil
	}
	s, err := scanFile(path, digest(sought))
	return s.found, err
}

// Verify checks that no line of a ledger was changed, removed, moved or truncated since it
// was written. Otherwise the error is a *DamageError about the first such line. Lines
// missing at the very end are detected only with a head: compare Summary.Head with the
// head in the run's summary, or search for that one with ContainsHead.
// The chain contains no secret. It detects accidents and careless edits; rewriting the
// whole ledger is possible but changes its head.
func Verify(path string) (Summary, error) {
	s, err := scanFile(path, digest{})
	if err == nil && s.tail.size > 0 {
		err = fmt.Errorf("%s: %w", path, &DamageError{s.chain.lines + 1, "the last line is truncated; the next run that appends to this ledger counts the most that it may have stated"})
	}
	return s.summary(), err
}

// scanResult is a ledger that was read to its end.
type scanResult struct {
	chain     chain
	tail      tail
	headless  bool   // the file ends before its first line does
	found     bool   // a line has the hash that was searched for
	lines     []line // if keepLines
	keepLines bool
}

// history returns the lots of the ledger, including those of a truncated last line.
func (s *scanResult) history() History {
	if s.tail.counts {
		s.chain.apply(s.tail.entry, s.tail.hash)
	}
	return s.chain.history
}

func (s scanResult) summary() Summary {
	c := s.chain
	r := Summary{Entries: c.lines, Lots: c.lots, Runs: c.runs, Run: c.history.Header.Run, Process: c.process,
		Weights: c.weights, Budget: c.history.Budget, Ended: c.ended, Complete: c.complete}
	if c.lines > 0 {
		r.Head = hex.EncodeToString(c.head[:])
	}
	return r
}

// tail is a last line without its newline.
type tail struct {
	offset int64 // where it starts
	size   int
	text   []byte // if keepLines
	whole  bool   // only the newline is missing
	counts bool   // it counts as entry
	entry  entry
	hash   digest
}

func scanFile(path string, sought digest) (scanResult, error) {
	f, err := os.Open(path)
	if err != nil {
		return scanResult{}, fmt.Errorf("ledger: %w", err)
	}
	defer f.Close()
	var s scanResult
	err = s.scan(f, sought)
	if err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// maxLineSize bounds the memory that a file which is not a ledger can take.
const maxLineSize = 16 << 20

func scan(r io.Reader) (s scanResult, err error) {
	err = s.scan(r, digest{})
	return s, err
}

// scan reads a ledger and searches for a line with the hash sought.
func (s *scanResult) scan(r io.Reader, sought digest) error {
	var p parser
	var long []byte
	in := bufio.NewReaderSize(r, 1<<16)
	for offset := int64(0); ; {
		text, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) && len(long)+len(text) <= maxLineSize {
			long = append(long, text...)
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = &DamageError{s.chain.lines + 1, "it is too long to be a line of a ledger"}
			}
			return err
		}
		if len(long) > 0 {
			text = append(long, text...)
			long = long[:0]
		}
		if err != nil {
			err := s.readLast(&p, text, offset)
			s.found = s.found || s.tail.whole && s.tail.hash == sought
			return err
		}
		e, why := s.chain.read(&p, text[:len(text)-1])
		if why != "" {
			return s.chain.damage(text, why)
		}
		s.chain.apply(e, hashLine(text[:len(text)-1]))
		if s.keepLines {
			s.lines = append(s.lines, line{s.chain.head, e})
		}
		s.found = s.found || s.chain.head == sought
		offset += int64(len(text))
	}
}

// readLast reads the text after the last newline.
func (s *scanResult) readLast(p *parser, text []byte, offset int64) error {
	s.headless = s.chain.lines == 0
	if len(text) == 0 {
		if s.headless {
			return &DamageError{1, "the file is empty: no lot was released under it; remove it"}
		}
		return nil
	}
	e, why := s.chain.read(p, text)
	if s.headless {
		if why == "" {
			why = "the header line is truncated: no lot was released under it; remove the file"
		}
		return s.chain.damage(text, why)
	}
	s.tail = tail{offset: offset, size: len(text)}
	if s.keepLines {
		s.tail.text = bytes.Clone(text)
	}
	if why == "" {
		s.tail.whole, s.tail.counts, s.tail.entry, s.tail.hash = true, true, e, hashLine(text)
		return nil
	}
	s.tail.entry, s.tail.counts = s.chain.guess(p, text)
	return nil
}

// read parses the line after those of c. It returns why the line is invalid, or "".
func (c *chain) read(p *parser, text []byte) (entry, string) {
	e, why := p.line(text, c.head)
	if why == "" {
		why = c.checkNext(e)
	}
	return e, why
}

// damage returns the error about the line after those of c.
func (c *chain) damage(text []byte, why string) *DamageError {
	if c.lines == 0 && !bytes.HasPrefix(text, []byte(`{"ledger"`)) {
		why = "this file is not a dptrain ledger, or its header line is missing"
	}
	return &DamageError{c.lines + 1, why}
}

// guess returns the most that a truncated line may have stated. If the disk kept what it
// reported as synced, nothing was released under that line, because a release waits until
// the whole line is synced; guess assumes that the disk did not.
func (c *chain) guess(p *parser, text []byte) (entry, bool) {
	text = bytes.TrimRight(text, "\x00")
	opening := func(k lineKind) bool {
		key := `{"` + string(k) + `":`
		n := min(len(key), len(text))
		return string(text[:n]) == key[:n]
	}
	if !opening(spendLine) && !opening(tornLine) &&
		(opening(returnLine) || opening(endLine) || opening(resumeLine) || opening(insecureLine) || opening(budgetLine)) {
		return entry{}, false
	}
	e := entry{kind: tornLine, count: max(1, 2*c.reserved)}
	rest, found := bytes.CutPrefix(text, []byte(`{"spend":`))
	if !found {
		rest, _ = bytes.CutPrefix(text, []byte(`{"torn":`))
	}
	p.text, p.at, p.fault = rest, 0, ""
	count := p.integer()
	if p.fault == "" {
		e.count = max(e.count, count)
	}
	if p.take(','); p.fault == "" && count > 0 {
		e.count = count
	}
	if string(p.quoted()) == "lot" {
		p.take(':')
		e.lot = p.lot()
	}
	if p.fault != "" || checkLot(e.lot) != "" {
		spent := c.history.Lots
		if len(spent) == 0 {
			return entry{}, false
		}
		e.lot = spent[len(spent)-1].Lot
	}
	return e, c.checkNext(e) == ""
}
