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

// DamageError says where a ledger is not what its writer wrote.
type DamageError struct {
	Line   int // counted from 1, the header
	Reason string
}

func (d *DamageError) Error() string { return fmt.Sprintf("line %d: %s", d.Line, d.Reason) }

// Summary is what Verify found.
type Summary struct {
	Entries int    // lines, the header among them
	Lots    int    // lots spent, reserved ones included
	Runs    int    // runs that wrote to this ledger
	Head    string // hash of the last line: whoever knows it can tell that no line is missing at the end
	Ended   bool   // the last run gave back what it did not use; otherwise it was killed, still runs, or the end is missing
}

// Read says what a ledger states, whoever wrote it and whether or not it is
// still being written. A last line cut short counts as the most that it may
// have stated (see FORMAT.md): what Read returns is never less than what was
// released, as long as the disk kept what it said it had synced. A ledger that
// is damaged elsewhere is refused with a *Damage.
func Read(path string) (History, error) {
	s, err := scanFile(path, digest{})
	if err != nil {
		return History{}, err
	}
	return s.history(), nil
}

// ContainsHead reports whether a ledger has a line whose SHA-256 is head, such as one that was
// its last when somebody made a note of it.
func ContainsHead(path, head string) (bool, error) {
	sought, err := hex.DecodeString(head)
	if err != nil || len(sought) != len(digest{}) {
		return false, nil
	}
	s, err := scanFile(path, digest(sought))
	return s.holds, err
}

// Verify checks every line of a ledger: none changed, dropped, moved or cut
// short since it was written, or the error is a *Damage that names the first.
// Lines missing at the very end cannot be noticed without the head: compare Report.Head
// with the one in the run's summary, or look for that one with Holds.
// The chain holds no secret: it shows accidents and careless edits, and whoever
// rewrites a whole ledger changes its head.
func Verify(path string) (Summary, error) {
	s, err := scanFile(path, digest{})
	if err == nil && s.tail.size > 0 {
		err = fmt.Errorf("%s: %w", path, &DamageError{s.chain.lines + 1, "the last line is cut short; the next run that appends to this ledger counts what it may have stated"})
	}
	return s.report(), err
}

// scanned is a ledger that was read to its end.
type scanned struct {
	chain    chain
	tail     tail
	headless bool // it ends before its first line does
	holds    bool // a line has the hash that was looked for
}

// history is what the ledger states, its last line with it.
func (s *scanned) history() History {
	if s.tail.stands {
		s.chain.apply(s.tail.entry, s.tail.hash)
	}
	return s.chain.history
}

func (s scanned) report() Summary {
	c := s.chain
	r := Summary{Entries: c.lines, Lots: c.lots, Runs: c.runs, Ended: c.ended}
	if c.lines > 0 {
		r.Head = hex.EncodeToString(c.head[:])
	}
	return r
}

// tail is a last line without its newline.
type tail struct {
	offset int64 // where it starts
	size   int
	whole  bool // only the newline is missing
	stands bool // it counts, as entry
	entry  entry
	hash   digest
}

func scanFile(path string, sought digest) (scanned, error) {
	f, err := os.Open(path)
	if err != nil {
		return scanned{}, fmt.Errorf("ledger: %w", err)
	}
	defer f.Close()
	s, err := scanFor(f, sought)
	if err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// longestLine bounds the memory that a file which is no ledger can take.
const longestLine = 16 << 20

func scan(r io.Reader) (scanned, error) { return scanFor(r, digest{}) }

// scanFor looks for a line of the hash sought on the way.
func scanFor(r io.Reader, sought digest) (scanned, error) {
	var s scanned
	var p parser
	var long []byte
	in := bufio.NewReaderSize(r, 1<<16)
	for offset := int64(0); ; {
		text, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) && len(long)+len(text) <= longestLine {
			long = append(long, text...)
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = &DamageError{s.chain.lines + 1, "it is too long for a line of a ledger"}
			}
			return s, err
		}
		if len(long) > 0 {
			text = append(long, text...)
			long = long[:0]
		}
		if err != nil {
			err := s.last(&p, text, offset)
			s.holds = s.holds || s.tail.whole && s.tail.hash == sought
			return s, err
		}
		e, why := s.chain.read(&p, text[:len(text)-1])
		if why != "" {
			return s, s.chain.damage(text, why)
		}
		s.chain.apply(e, hashLine(text[:len(text)-1]))
		s.holds = s.holds || s.chain.head == sought
		offset += int64(len(text))
	}
}

// last reads what follows the last newline.
func (s *scanned) last(p *parser, text []byte, offset int64) error {
	s.headless = s.chain.lines == 0
	if len(text) == 0 {
		if s.headless {
			return &DamageError{1, "the file is empty: no run wrote to it, remove it"}
		}
		return nil
	}
	e, why := s.chain.read(p, text)
	if s.headless {
		if why == "" {
			why = "the header is cut short: no lot was released, remove the file"
		}
		return s.chain.damage(text, why)
	}
	s.tail = tail{offset: offset, size: len(text)}
	if why == "" {
		s.tail.whole, s.tail.stands, s.tail.entry, s.tail.hash = true, true, e, hashLine(text)
		return nil
	}
	s.tail.entry, s.tail.stands = s.chain.guess(p, text)
	return nil
}

// read parses the line after those of c, and says in words why it cannot be; "" is sound.
func (c *chain) read(p *parser, text []byte) (entry, string) {
	e, why := p.line(text, c.head)
	if why == "" {
		why = c.fault(e)
	}
	return e, why
}

// damage is what is wrong with the line after those of c.
func (c *chain) damage(text []byte, why string) *DamageError {
	if c.lines == 0 && !bytes.HasPrefix(text, []byte(`{"ledger"`)) {
		why = "this file is no dptrain ledger, or its header is gone"
	}
	return &DamageError{c.lines + 1, why}
}

// guess says what a line of which only text is left may have stated at most.
// Nothing was released under it if the disk kept its word, since a release waits
// until the whole line is synced; guess assumes that the disk did not.
func (c *chain) guess(p *parser, text []byte) (entry, bool) {
	text = bytes.TrimRight(text, "\x00")
	opening := func(k kind) bool {
		key := `{"` + string(k) + `":`
		n := min(len(key), len(text))
		return string(text[:n]) == key[:n]
	}
	if !opening(spendLine) && !opening(tornLine) &&
		(opening(returnLine) || opening(endLine) || opening(resumeLine) || opening(insecureLine)) {
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
	if p.fault != "" || lotFault(e.lot) != "" {
		spent := c.history.Lots
		if len(spent) == 0 {
			return entry{}, false
		}
		e.lot = spent[len(spent)-1].Lot
	}
	return e, c.fault(e) == ""
}
