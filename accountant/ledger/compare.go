package ledger

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
)

// File is a ledger that was read to be compared with others.
type File struct {
	Path      string
	History   History
	Summary   Summary
	Truncated bool // the last line is; it counts as the most that it may have stated

	lines []line
	// torn is the truncated last line if it counts. lines ends with it.
	torn tail
	info os.FileInfo
}

// line is a line of a ledger. Equal hashes mean equal lines and, by the chain, equal lines
// before them (SHA-256 is collision-resistant).
type line struct {
	hash digest
	entry
}

// ReadFile reads a ledger, as Read does, for Compare and Join.
func ReadFile(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	defer file.Close()
	f := &File{Path: path}
	if f.info, err = file.Stat(); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	s := scanResult{keepLines: true}
	if err := s.scan(file, digest{}); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f.Truncated = s.tail.size > 0
	if s.tail.counts {
		hash := s.tail.hash
		if !s.tail.whole {
			hash = hashLine(s.tail.text)
			f.torn = s.tail
		}
		f.lines = append(s.lines, line{hash, s.tail.entry})
	} else {
		f.lines = s.lines
	}
	f.Summary = s.summary()
	f.History = s.history()
	return f, nil
}

// HasProcess reports whether the process with an identifier wrote to the ledger. A copy that was made
// before that process began lacks it.
func (f *File) HasProcess(identifier string) bool {
	return slices.ContainsFunc(f.lines, func(l line) bool { return l.header.Run == identifier && identifier != "" })
}

// IsDescribedBy reports whether a line has the hash head, in hexadecimal, and no lots come after it.
func (f *File) IsDescribedBy(head string) bool {
	for i, l := range f.lines {
		if hex.EncodeToString(l.hash[:]) == head {
			return lotsOf(f.lines[i+1:]) == 0
		}
	}
	return false
}

// Relation is how two ledgers are related.
type Relation string

const (
	// Copy: both have the same lines.
	Copy Relation = "copy"
	// Earlier: the second has all lines of the first and more.
	Earlier Relation = "earlier copy"
	// Later: the first has all lines of the second and more.
	Later Relation = "later copy"
	// Fork: one run was copied and continued more than once.
	Fork Relation = "fork"
	// Unrelated: two runs.
	Unrelated Relation = "unrelated"
)

// Comparison is how two ledgers are related.
type Comparison struct {
	Relation   Relation
	CommonLots int // lots in the lines that both have
	Line       int // the first line that differs, from 1; 0 unless they are a fork
}

// Compare finds the lines with which two ledgers begin alike.
//
// The result is right if every run identifier was drawn at random by one process, which then
// wrote all lines up to the next resume line: ledgers that share an identifier come from one
// file, and two processes that continue copies of it write different resume lines. A process
// that was duplicated in memory, such as a virtual machine, and a program that rewrites a
// ledger are not detected.
func Compare(a, b *File) Comparison {
	shared := commonLines(a, b)
	c := Comparison{CommonLots: lotsOf(a.lines[:shared])}
	endA, endB := a.length(b, shared), b.length(a, shared)
	switch {
	case shared == 0:
		c.Relation = Unrelated
	case shared == endA && shared == endB:
		c.Relation = Copy
	case shared == endA:
		c.Relation = Earlier
	case shared == endB:
		c.Relation = Later
	default:
		c.Relation, c.Line = Fork, shared+1
	}
	return c
}

func commonLines(a, b *File) int {
	n := min(len(a.lines), len(b.lines))
	for i := range n {
		if a.lines[i].hash != b.lines[i].hash {
			return i
		}
	}
	return n
}

// length returns the number of lines of f to compare with g, which shares some: all, except a
// truncated last line that g has in full. f is then a copy made while the line was written.
func (f *File) length(g *File, shared int) int {
	n := len(f.lines)
	if f.torn.size == 0 || shared != n-1 || len(g.lines) < n {
		return n
	}
	text := bytes.TrimRight(f.torn.text, "\x00")
	file, err := os.Open(g.Path)
	if err != nil {
		return n
	}
	defer file.Close()
	written := make([]byte, len(text))
	if _, err := file.ReadAt(written, f.torn.offset); err == nil && bytes.Equal(written, text) {
		return n - 1
	}
	return n
}

func lotsOf(lines []line) int {
	n := 0
	for _, l := range lines {
		switch l.kind {
		case spendLine, tornLine:
			n += l.count
		case returnLine:
			n -= l.count
		}
	}
	return n
}

// Joint is what several ledgers released together.
type Joint struct {
	// History has all lots once, in an order that every accountant accounts for correctly. An
	// interrupted pass of shuffled lots is complete in it, so it may have more lots than Lots.
	History History
	Lots    int // lots released or stated
}

// Join returns what ledgers about the same records released together. It counts once the lines
// that copies and forks of one run share (see Compare), and in full all other lines. Lots that a
// fork returns and that it did not state itself still count: they were stated before the fork.
//
// The composition of the runs has the guarantee of the joint history (adaptive composition;
// Dwork and Roth 2014, section 3.5). Its unit is that of all ledgers; Join returns an error if
// their units differ. Its adjacency is replace-one if one ledger has it, otherwise zero-out if
// one has it: a sensitivity is for a record that is added, under every adjacency. Sets of
// records that differ, such as some people in two data sets, are at most as expensive.
func Join(files []*File) (Joint, error) {
	if len(files) == 0 {
		return Joint{}, fmt.Errorf("no ledgers to join")
	}
	j := joiner{}
	j.History.Header = files[0].History.Header
	j.History.Header.Run = ""
	h := &j.History.Header
	for _, f := range files {
		other := f.History.Header
		if other.Unit != h.Unit {
			return Joint{}, fmt.Errorf("%s protects the unit %s and %s the unit %s: compute their ε separately", files[0].Path, h.Unit, f.Path, other.Unit)
		}
		h.Records = max(h.Records, other.Records)
		h.Secure = h.Secure && other.Secure
		if other.Adjacency == ReplaceOne || h.Adjacency == AddRemove {
			h.Adjacency = other.Adjacency
		}
	}
	// Being forks or copies of one another is transitive: all have the first line in common, which
	// identifies the run.
	rest := files
	for len(rest) > 0 {
		var family, others []*File
		for _, f := range rest {
			if Compare(rest[0], f).Relation == Unrelated {
				others = append(others, f)
			} else {
				family = append(family, f)
			}
		}
		j.add(family, 0, pass{})
		rest = others
	}
	if total := j.History.LotCount(); total > MaxLots || total < 0 || j.Lots < 0 {
		return Joint{}, fmt.Errorf("the ledgers have more than %d lots together", MaxLots)
	}
	return j.Joint, nil
}

type joiner struct{ Joint }

// pass is how many lots of a pass of shuffled lots were stated.
type pass struct {
	sampling Sampling
	stated   int
}

func (p *pass) add(lot RepeatedLot) {
	s := lot.Lot.Sampling
	if s.Policy != Shuffle {
		return
	}
	if s != p.sampling {
		*p = pass{sampling: s}
	}
	p.stated = (p.stated + lot.Count%p.lots()) % p.lots()
}

// lots returns the lots of a whole pass.
func (p *pass) lots() int { return (p.sampling.Records + p.sampling.LotSize - 1) / p.sampling.LotSize }

// add adds the lines from start on of files that have the same lines before it. before is the
// pass that these lines leave.
func (j *joiner) add(files []*File, start int, before pass) {
	end, longest := start, files[0]
	var branches [][]*File
	for {
		if branches = branchesAt(files, end); len(branches) != 1 {
			break
		}
		files = branches[0] // files that end here are earlier copies
		longest = files[0]
		end++
	}
	after := j.addLines(longest.lines[start:end], before)
	for _, b := range branches {
		j.add(b, end, after)
	}
}

// branchesAt returns the files by their line at a position, without those that end before it.
func branchesAt(files []*File, at int) (branches [][]*File) {
	index := map[digest]int{}
	for _, f := range files {
		if at >= len(f.lines) || at == len(f.lines)-1 && f.endsWithin(files, at) {
			continue
		}
		hash := f.lines[at].hash
		i, seen := index[hash]
		if !seen {
			i = len(branches)
			index[hash] = i
			branches = append(branches, nil)
		}
		branches[i] = append(branches[i], f)
	}
	return branches
}

// endsWithin reports whether the truncated line of f at a position is the beginning of that
// line in another file.
func (f *File) endsWithin(files []*File, at int) bool {
	for _, g := range files {
		if g != f && f.length(g, at) == at {
			return true
		}
	}
	return false
}

// addLines adds lines that one process or several wrote after another, and returns the pass
// that they leave. Its lots are not in one pass with lots of other branches, so the first and
// the last pass are completed.
func (j *joiner) addLines(lines []line, p pass) pass {
	var c chain
	for _, l := range lines {
		switch l.kind {
		case spendLine, tornLine:
			c.apply(l.entry, l.hash)
		case returnLine:
			e := l.entry
			if e.count = min(e.count, c.lots); e.count > 0 {
				c.apply(e, l.hash)
			}
		}
	}
	j.Lots += c.lots
	first := true
	var last Lot
	for _, lot := range c.history.Lots {
		if lot.Lot.Sampling.Policy == Shuffle {
			if first && lot.Lot.Sampling == p.sampling && p.stated > 0 {
				j.History.Lots = append(j.History.Lots, RepeatedLot{lot.Lot, p.stated})
			}
			first, last = false, lot.Lot
		}
		p.add(lot)
		j.History.Lots = append(j.History.Lots, lot)
	}
	if !first && p.stated > 0 {
		j.History.Lots = append(j.History.Lots, RepeatedLot{last, p.lots() - p.stated})
	}
	return p
}
