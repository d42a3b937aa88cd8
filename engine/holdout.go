package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/engine/data"
)

// HoldOut parts a private set into what is trained on and n records that are held
// out: the last ones in the order of a public hash of what each record holds and of
// how many equal ones come before it, so that neither the order of the data nor
// their classes decide. n must be a public number, whatever the records are.
//
// A record more or less is one key more or less in that order. It changes what is
// trained on by at most that one record, and at most replaces one of those held out:
// where its key is among the last n, the first of these moves over. A record that is
// replaced replaces at most one on each side. One that is blanked is as one that is missing,
// but that a place among those trained on stays, empty. Both parts may change at once, so what
// the two release must be composed, in one ledger, and cannot be taken as parallel.
func HoldOut(s data.Set, r Records, n int) (train, held data.Set, err error) {
	d, err := newDeck(s, r)
	if err != nil {
		return nil, nil, err
	}
	if n < 1 || n >= d.count {
		return nil, nil, fmt.Errorf("cannot hold out %d of %d records: at least one is needed on each side", n, d.count)
	}
	records, keys := make([]int, d.count), make([][sha256.Size]byte, d.count)
	seen := map[[sha256.Size]byte]uint64{}
	for record := range records {
		records[record] = record
		content, err := digest(s, d.examples(record))
		if err != nil {
			return nil, nil, err
		}
		keys[record] = sha256.Sum256(binary.LittleEndian.AppendUint64(content[:], seen[content]))
		seen[content]++
	}
	slices.SortFunc(records, func(a, b int) int { return bytes.Compare(keys[a][:], keys[b][:]) })
	if train, err = d.subset(s, records[:d.count-n]); err != nil {
		return nil, nil, err
	}
	held, err = d.subset(s, records[d.count-n:])
	return train, held, err
}

// examples are all rows of a record, in the order of the data.
func (d *deck) examples(record int) []int {
	if d.order != nil {
		return d.order[d.start[record]:d.start[record+1]]
	}
	var rows []int
	for row := record * d.per; row < min((record+1)*d.per, d.rows); row++ {
		rows = append(rows, row)
	}
	return rows
}

// subset is the examples of some records, in the order of the data.
func (d *deck) subset(s data.Set, records []int) (data.Set, error) {
	var rows []int
	for _, record := range records {
		rows = append(rows, d.examples(record)...)
	}
	slices.Sort(rows)
	return data.Subset(s, rows)
}

// digest is a hash of what some examples hold.
func digest(s data.Set, rows []int) (sum [sha256.Size]byte, err error) {
	var content []byte
	values := make([][]float32, len(s.Columns()))
	for k, c := range s.Columns() {
		values[k] = make([]float32, len(rows)*c.Size())
	}
	if err := s.Read(values, rows); err != nil {
		return sum, err
	}
	for _, column := range values {
		for _, v := range column {
			content = binary.LittleEndian.AppendUint32(content, math.Float32bits(v))
		}
	}
	return sha256.Sum256(content), nil
}
