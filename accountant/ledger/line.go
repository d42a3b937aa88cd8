package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"strconv"
)

// formatVersion is the version of the ledger's format that this package writes;
// FORMAT.md describes it.
const formatVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type digest = [sha256.Size]byte

func hashLine(text []byte) digest { return sha256.Sum256(text) }

// kind is what a line of a ledger states; it is the line's first key.
type kind string

const (
	headerLine   kind = "ledger"
	spendLine    kind = "spend"    // lots that ran or are about to
	tornLine     kind = "torn"     // lots counted because a line was cut short
	returnLine   kind = "return"   // the last lots stated by this run did not happen, and never will
	resumeLine   kind = "resume"   // another run begins
	insecureLine kind = "insecure" // from here on, noise or sampling was not cryptographic
	endLine      kind = "end"      // the run ended cleanly
)

// entry is one line without its seal.
type entry struct {
	kind   kind
	count  int    // lots; for resume the number of the run
	lot    Lot    // spend and torn
	header Header // header
}

// appendLine appends e as a line, newline included, and returns the line's hash.
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
	case insecureLine:
		b = append(b, `{"insecure":true`...)
	default:
		b = append(b, `{"`...)
		b = append(b, e.kind...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, int64(e.count), 10)
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
	b = appendCheck(b, b[start:])
	hash := hashLine(b[start:])
	return append(b, '\n'), hash
}

// checkSize is the length of what appendCheck appends.
const checkSize = len(`,"crc":"00000000"}`)

// appendCheck ends a line with the CRC-32C of what it says. The chain of hashes
// cannot notice a flipped bit in the last line; the check can.
func appendCheck(b, says []byte) []byte {
	sum := crc32.Checksum(says, castagnoli)
	b = append(b, `,"crc":"`...)
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[sum>>shift&15])
	}
	return append(b, `"}`...)
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
		b = append(b, `{"group":`...)
		b = appendString(b, q.Group)
		b = append(b, `,"mechanism":`...)
		b = appendString(b, string(q.Mechanism))
		b = append(b, `,"sensitivity":`...)
		b = appendNumber(b, q.Sensitivity)
		b = append(b, `,"noise":`...)
		b = appendNumber(b, q.Noise)
		b = append(b, '}')
	}
	return append(b, `]}`...)
}

// appendNumber writes the shortest decimal that reads back as exactly x.
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
