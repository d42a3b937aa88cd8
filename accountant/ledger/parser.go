package ledger

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// parser parses lines of a ledger. It is stricter than encoding/json, which ignores the
// case of a key, takes the last of two equal keys and skips unknown keys: two programs
// must never read different costs from one line. It is also about five times faster,
// which a ledger of a million different lots needs.
type parser struct {
	text  []byte
	at    int
	fault string            // the first fault, or ""
	names map[string]string // earlier strings, shared by all lots
	prev  []byte            // the value of the key "prev"
}

// line parses one line without its newline. The line must follow a line whose hash is
// prev. It returns what is wrong, or "".
func (p *parser) line(text []byte, prev digest) (entry, string) {
	if len(text) < checksumSize {
		return entry{}, "it is too short to be a line of a ledger"
	}
	content := text[:len(text)-checksumSize]
	var buffer [checksumSize]byte
	if !bytes.Equal(appendChecksum(buffer[:0], content), text[len(content):]) {
		return entry{}, "its crc does not match: the line was changed"
	}
	p.text, p.at, p.fault, p.prev = text, 0, "", nil
	e := p.entry()
	if p.space(); p.fault == "" && p.at != len(text) {
		p.fail("there is text after the JSON object")
	}
	if p.fault != "" {
		return entry{}, p.fault
	}
	if e.kind != headerLine {
		var want [2 * len(prev)]byte
		hex.Encode(want[:], prev[:])
		if !bytes.Equal(want[:], p.prev) {
			return entry{}, "its prev is not the hash of the line before: one of the two lines was changed, or lines were removed or moved"
		}
	}
	return e, ""
}

var entryKeys = []string{"ledger", "spend", "torn", "return", "resume", "insecure", "end",
	"version", "unit", "records", "adjacency", "secure", "lot", "prev", "crc", "run", "weights", "budget", "complete"}

// The keys of each kind of line, as bits in the order of entryKeys.
const (
	keyLedger = 1 << iota
	keySpend
	keyTorn
	keyReturn
	keyResume
	keyInsecure
	keyEnd
	keyVersion
	keyUnit
	keyRecords
	keyAdjacency
	keySecure
	keyLot
	keyPrev
	keyCRC
	keyRun
	keyWeights
	keyBudget
	keyComplete
)

func (p *parser) entry() (e entry) {
	given := p.object(entryKeys, func(i int) {
		if p.prev != nil && 1<<i != keyCRC {
			p.fail("prev must be the last key before crc")
		}
		switch 1 << i {
		case keyLedger:
			e.kind = headerLine
			if name := p.name(); p.fault == "" && name != "dptrain" {
				p.fail(fmt.Sprintf("ledger is %q and must be dptrain", name))
			}
		case keySpend, keyTorn, keyReturn, keyResume, keyEnd:
			e.kind, e.count = lineKind(entryKeys[i]), p.integer()
		case keyInsecure:
			if e.kind = insecureLine; !p.boolean() {
				p.fail("insecure must be true")
			}
		case keyVersion:
			e.header.Version = p.integer()
		case keyUnit:
			e.header.Unit = p.name()
		case keyRecords:
			e.header.Records = p.integer()
		case keyAdjacency:
			e.header.Adjacency = Adjacency(p.name())
		case keySecure:
			e.header.Secure = p.boolean()
		case keyRun:
			if e.header.Run = p.name(); !isHex(e.header.Run, runIDSize) {
				p.fail("run must be 32 lower-case hexadecimal digits")
			}
		case keyWeights:
			if e.weights = p.name(); !isHex(e.weights, len(digest{})) {
				p.fail("weights must be 64 lower-case hexadecimal digits")
			}
		case keyBudget:
			e.kind = budgetLine
			if e.budget = p.name(); !isHex(e.budget, runIDSize) {
				p.fail("budget must be 32 lower-case hexadecimal digits")
			}
		case keyComplete:
			if e.complete = p.boolean(); !e.complete {
				p.fail("complete must be true")
			}
		case keyLot:
			e.lot = p.lot()
		case keyPrev:
			p.prev = p.quoted()
		case keyCRC:
			p.quoted() // checked before the line was parsed
		}
	})
	if p.fault != "" {
		return entry{}
	}
	switch given {
	case keyLedger | keyVersion | keyUnit | keyRecords | keyAdjacency | keySecure | keyRun | keyCRC:
		p.fault = checkHeader(e.header)
	case keySpend | keyLot | keyPrev | keyCRC, keyTorn | keyLot | keyPrev | keyCRC:
		p.fault = checkLot(e.lot)
	case keyReturn | keyPrev | keyCRC, keyEnd | keyPrev | keyCRC, keyInsecure | keyPrev | keyCRC,
		keyResume | keyRun | keyPrev | keyCRC, keyResume | keyVersion | keyRun | keyPrev | keyCRC, keyEnd | keyWeights | keyPrev | keyCRC,
		keyBudget | keyPrev | keyCRC, keyEnd | keyComplete | keyPrev | keyCRC, keyEnd | keyWeights | keyComplete | keyPrev | keyCRC:
	default:
		p.fault = "its keys do not form a valid line"
	}
	return e
}

// isHex reports whether s is size bytes in lower-case hexadecimal.
func isHex(s string, size int) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == size && hex.EncodeToString(b) == s
}

var (
	lotKeys      = []string{"sampling", "queries"}
	samplingKeys = []string{"policy", "rate", "lot", "records"}
	queryKeys    = []string{"group", "mechanism", "sensitivity", "noise", "lattice", "grid"}
)

func (p *parser) lot() (lot Lot) {
	given := p.object(lotKeys, func(i int) {
		switch i {
		case 0:
			lot.Sampling = p.sampling()
		case 1:
			lot.Queries = p.queries()
		}
	})
	if given != 1<<len(lotKeys)-1 {
		p.fail("a lot needs the keys sampling and queries")
	}
	return lot
}

func (p *parser) sampling() (s Sampling) {
	p.object(samplingKeys, func(i int) {
		switch i {
		case 0:
			s.Policy = Policy(p.name())
		case 1:
			s.Rate = p.number()
		case 2:
			s.LotSize = p.integer()
		case 3:
			s.Records = p.integer()
		}
	})
	return s
}

func (p *parser) queries() []Query {
	var few [4]Query
	all := few[:0]
	p.take('[')
	for p.fault == "" {
		var q Query
		given := p.object(queryKeys, func(i int) {
			switch i {
			case 0:
				q.Group = p.name()
			case 1:
				q.Mechanism = Mechanism(p.name())
			case 2:
				q.Sensitivity = p.number()
			case 3:
				q.Noise = p.number()
			case 4:
				q.Lattice = int64(p.integer())
			case 5:
				q.Grid = p.exponent()
			}
		})
		const always, onLattice = 1<<4 - 1, 1<<6 - 1
		switch {
		case q.Mechanism.hasLattice() && given != onLattice:
			p.fail("a " + string(q.Mechanism) + " query needs the keys group, mechanism, sensitivity, noise, lattice and grid")
		case !q.Mechanism.hasLattice() && given&^always != 0:
			p.fail("the keys lattice and grid belong to the mechanisms rounded-gaussian and discrete-laplace")
		case !q.Mechanism.hasLattice() && given != always:
			p.fail("a query needs the keys group, mechanism, sensitivity and noise")
		}
		all = append(all, q)
		if !p.more(']') {
			break
		}
	}
	return append([]Query(nil), all...)
}

// object parses {"key": value, …}. It calls value(i) to parse the value of keys[i] and
// returns a bit for each key found. A repeated or unknown key is a fault.
func (p *parser) object(keys []string, value func(int)) (given int) {
	p.take('{')
	for p.fault == "" {
		key := p.quoted()
		p.take(':')
		which := -1
		for i, k := range keys {
			if string(key) == k {
				which = i
			}
		}
		if p.fault != "" {
			break
		}
		if which < 0 {
			p.fail(fmt.Sprintf("key %q is unknown", key))
			break
		}
		if given&(1<<which) != 0 {
			p.fail(fmt.Sprintf("key %q is repeated", key))
			break
		}
		given |= 1 << which
		value(which)
		if !p.more('}') {
			break
		}
	}
	return given
}

// more parses the comma before the next element, or the end.
func (p *parser) more(end byte) bool {
	if p.space(); p.at < len(p.text) && p.text[p.at] == ',' {
		p.at++
		return p.fault == ""
	}
	p.take(end)
	return false
}

func (p *parser) space() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t') {
		p.at++
	}
}

func (p *parser) take(b byte) {
	if p.space(); p.at < len(p.text) && p.text[p.at] == b {
		p.at++
		return
	}
	p.fail(fmt.Sprintf("expected %q", b))
}

// fail records the first fault, with its column.
func (p *parser) fail(why string) {
	if p.fault == "" {
		p.fault = fmt.Sprintf("column %d: %s", p.at+1, why)
	}
}

// quoted parses a string and returns the text between its quotes.
func (p *parser) quoted() []byte {
	p.take('"')
	start := p.at
	for p.at < len(p.text) && p.fault == "" {
		switch c := p.text[p.at]; {
		case c == '"':
			p.at++
			return p.text[start : p.at-1]
		case c == '\\':
			p.at++
		case c < ' ':
			p.fail("a string contains a control character")
		}
		p.at++
	}
	p.at = min(p.at, len(p.text))
	p.fail("a string has no closing quote")
	return nil
}

// name parses a string value and decodes its escapes.
func (p *parser) name() string {
	raw := p.quoted()
	if known, ok := p.names[string(raw)]; ok {
		return known
	}
	name := string(raw)
	if !utf8.Valid(raw) {
		p.fail("a string is not valid UTF-8")
	} else if bytes.IndexByte(raw, '\\') >= 0 {
		if json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &name) != nil {
			p.fail("a string has an invalid escape")
		}
	}
	if p.fault != "" {
		return ""
	}
	if p.names == nil {
		p.names = make(map[string]string)
	}
	if len(p.names) < 4096 {
		p.names[string(raw)] = name
	}
	return name
}

func (p *parser) boolean() bool {
	p.space()
	for _, word := range []string{"true", "false"} {
		if bytes.HasPrefix(p.text[p.at:], []byte(word)) {
			p.at += len(word)
			return word == "true"
		}
	}
	p.fail("expected true or false")
	return false
}

// digits parses one or more decimal digits.
func (p *parser) digits() {
	start := p.at
	for p.at < len(p.text) && '0' <= p.text[p.at] && p.text[p.at] <= '9' {
		p.at++
	}
	if p.at == start {
		p.fail("expected a digit")
	}
}

// whole parses the integer part of a number, which as in JSON has no leading zero.
func (p *parser) whole() {
	if p.at < len(p.text) && p.text[p.at] == '0' {
		p.at++
		return
	}
	p.digits()
}

// integer parses a number without sign, fraction or exponent, up to mostLots.
func (p *parser) integer() int {
	p.space()
	start := p.at
	p.whole()
	n, err := strconv.ParseUint(string(p.text[start:p.at]), 10, 64)
	if err != nil || n > MaxLots {
		p.fail("a number is too large")
		return 0
	}
	return int(n)
}

// exponent parses an integer that may be negative, without fraction or exponent.
func (p *parser) exponent() int {
	p.space()
	start := p.at
	if p.at < len(p.text) && p.text[p.at] == '-' {
		p.at++
	}
	p.whole()
	n, err := strconv.Atoi(string(p.text[start:p.at]))
	if err != nil {
		p.fail("a number is too large")
	}
	return n
}

// number parses a number that is not negative.
func (p *parser) number() float64 {
	p.space()
	start := p.at
	p.whole()
	if p.at < len(p.text) && p.text[p.at] == '.' {
		p.at++
		p.digits()
	}
	if p.at < len(p.text) && (p.text[p.at] == 'e' || p.text[p.at] == 'E') {
		p.at++
		if p.at < len(p.text) && (p.text[p.at] == '+' || p.text[p.at] == '-') {
			p.at++
		}
		p.digits()
	}
	if p.fault != "" {
		return 0
	}
	x, err := strconv.ParseFloat(string(p.text[start:p.at]), 64)
	if err != nil {
		p.fail("a number is too large")
	}
	return x
}
