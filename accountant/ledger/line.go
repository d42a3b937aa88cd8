package ledger

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"strconv"
)

// formatVersion is the version of the file format in FORMAT.md that this package writes.
const formatVersion = 5

// firstVersion is the first version that this package reads.
const firstVersion = 4

// firstBudgeted is the first version with budget lines and the key complete.
const firstBudgeted = 5

// runIDSize is the size in bytes of a run identifier. Two of 2^40 identifiers are equal with a
// probability below 2^-48.
const runIDSize = 16

// newRunID returns a run identifier. It comes from the operating system also in a seeded run:
// it is public, and two processes must never draw the same one.
func newRunID() string {
	var id [runIDSize]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type digest = [sha256.Size]byte

func hashLine(text []byte) digest { return sha256.Sum256(text) }

// lineKind is the first key of a line.
type lineKind string

const (
	headerLine   lineKind = "ledger"
	spendLine    lineKind = "spend"    // lots that were or will be released
	tornLine     lineKind = "torn"     // lots counted because a line was truncated
	returnLine   lineKind = "return"   // the last lots stated by this run are not and will not be released
	resumeLine   lineKind = "resume"   // another run begins
	insecureLine lineKind = "insecure" // from here on noise or sampling is not cryptographic
	budgetLine   lineKind = "budget"   // the ledger's cost is counted in a project budget
	endLine      lineKind = "end"      // the run ended cleanly
)

// entry is the content of one line, without its hash and checksum.
type entry struct {
	kind   lineKind
	count  int    // number of lots; in a resume line the number of the run
	lot    Lot    // in spend and torn lines
	header Header // in the header line; a resume line has at most a Version and a Run

	weights  string // in an end line: the SHA-256 of the released weights, or ""
	complete bool   // in an end line: no release decided when the run ended
	budget   string // in a budget line: the identity of the project budget
}

// appendLine appends e as a line with its newline, and returns the line's hash.
func appendLine(b []byte, e entry, prev digest) ([]byte, digest) {
	start := len(b)
	switch e.kind {
	case headerLine:
		b = append(b, `{"ledger":"dptrain","version":`...)
		b = strconv.AppendInt(b, int64(e.header.Version), 10)
		b = append(b, `,"unit":`...)
		b = appendString(b, e.header.Unit)
		b = append(b, `,"records":`...)
		b = strconv.AppendInt(b, int64(e.header.Records), 10)
		b = append(b, `,"adjacency":`...)
		b = appendString(b, string(e.header.Adjacency))
		b = append(b, `,"secure":`...)
		b = strconv.AppendBool(b, e.header.Secure)
		b = appendRun(b, e.header.Run)
	case insecureLine:
		b = append(b, `{"insecure":true`...)
	case budgetLine:
		b = append(b, `{"budget":`...)
		b = appendString(b, e.budget)
	default:
		b = append(b, `{"`...)
		b = append(b, e.kind...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, int64(e.count), 10)
	}
	if e.kind == resumeLine {
		if e.header.Version > 0 {
			b = append(b, `,"version":`...)
			b = strconv.AppendInt(b, int64(e.header.Version), 10)
		}
		b = appendRun(b, e.header.Run)
	}
	if e.weights != "" {
		b = append(b, `,"weights":`...)
		b = appendString(b, e.weights)
	}
	if e.complete {
		b = append(b, `,"complete":true`...)
	}
	if e.kind == spendLine || e.kind == tornLine {
		b = append(b, `,"lot":`...)
		b = appendLot(b, e.lot)
	}
	if e.kind != headerLine {
		b = append(b, `,"prev":"`...)
		b = hex.AppendEncode(b, prev[:])
		b = append(b, '"')
	}
	b = appendChecksum(b, b[start:])
	hash := hashLine(b[start:])
	return append(b, '\n'), hash
}

// checksumSize is the number of bytes that appendChecksum appends.
const checksumSize = len(`,"crc":"00000000"}`)

// appendChecksum ends a line with the CRC-32C of its content. The hash chain does not
// detect a flipped bit in the last line; the checksum does.
func appendChecksum(b, content []byte) []byte {
	sum := crc32.Checksum(content, castagnoli)
	b = append(b, `,"crc":"`...)
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[sum>>shift&15])
	}
	return append(b, `"}`...)
}

func appendRun(b []byte, run string) []byte {
	if run == "" {
		return b
	}
	b = append(b, `,"run":`...)
	return appendString(b, run)
}

func appendLot(b []byte, lot Lot) []byte {
	b = append(b, `{"sampling":{"policy":`...)
	b = appendString(b, string(lot.Sampling.Policy))
	if lot.Sampling.Rate != 0 {
		b = append(b, `,"rate":`...)
		b = appendNumber(b, lot.Sampling.Rate)
	}
	if lot.Sampling.LotSize != 0 {
		b = append(b, `,"lot":`...)
		b = strconv.AppendInt(b, int64(lot.Sampling.LotSize), 10)
	}
	if lot.Sampling.Records != 0 {
		b = append(b, `,"records":`...)
		b = strconv.AppendInt(b, int64(lot.Sampling.Records), 10)
	}
	b = append(b, `},"queries":[`...)
	for i, q := range lot.Queries {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQuery(b, q)
	}
	return append(b, `]}`...)
}

func appendQuery(b []byte, q Query) []byte {
	b = append(b, `{"group":`...)
	b = appendString(b, q.Group)
	b = append(b, `,"mechanism":`...)
	b = appendString(b, string(q.Mechanism))
	b = append(b, `,"sensitivity":`...)
	b = appendNumber(b, q.Sensitivity)
	b = append(b, `,"noise":`...)
	b = appendNumber(b, q.Noise)
	if q.Mechanism.hasLattice() {
		b = append(b, `,"lattice":`...)
		b = strconv.AppendInt(b, q.Lattice, 10)
		b = append(b, `,"grid":`...)
		b = strconv.AppendInt(b, int64(q.Grid), 10)
	}
	return append(b, '}')
}

// appendNumber appends the shortest decimal that parses to exactly x.
func appendNumber(b []byte, x float64) []byte {
	return strconv.AppendFloat(b, x, 'g', -1, 64)
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // a string always marshals
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
