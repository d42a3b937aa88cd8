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

// HoldOut divides a private set into a training set and n held-out records: the last ones in the
// order of a public hash of each record's content and of the number of equal records before it, so
// that neither the order of the data nor their classes decide. n must be a public number that does
// not depend on the records.
//
// Adding or removing a record adds or removes one key in that order. It changes the training set
// by at most that one record, and replaces at most one of the held-out records: where its key is
// among the last n, the first of these changes sides. Replacing a record replaces at most one on
// each side. Blanking a record is like removing it, except that it keeps a place in the training
// set, empty: blank records come first in the order. Both sides may change at once, so their releases must be composed, in one
// ledger; parallel composition does not apply.
func HoldOut(s data.Set, r Records, n int) (train, heldOut data.Set, err error) {
	d, err := newRecordIndex(s, r)
	if err != nil {
		return nil, nil, err
	}
	if n < 1 || n >= d.records {
		return nil, nil, fmt.Errorf("cannot hold out %d records: both sides need at least one record; hold out fewer", n)
	}
	records, keys := make([]int, d.records), make([][sha256.Size]byte, d.records)
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
	slices.SortFunc(records, func(a, b int) int {
		if blank := d.isBlank(a); blank != d.isBlank(b) {
			if blank {
				return -1
			}
			return 1
		}
		return bytes.Compare(keys[a][:], keys[b][:])
	})
	if train, err = d.subset(s, records[:d.records-n]); err != nil {
		return nil, nil, err
	}
	heldOut, err = d.subset(s, records[d.records-n:])
	return train, heldOut, err
}

// examples returns all rows of a record, in the order of the data.
func (d *recordIndex) examples(record int) []int {
	if d.order != nil {
		return d.order[d.start[record]:d.start[record+1]]
	}
	var rows []int
	for row := record * d.perRecord; row < min((record+1)*d.perRecord, d.rows); row++ {
		rows = append(rows, row)
	}
	return rows
}

// subset returns the examples of records, in the order of the data.
func (d *recordIndex) subset(s data.Set, records []int) (data.Set, error) {
	var rows []int
	for _, record := range records {
		rows = append(rows, d.examples(record)...)
	}
	slices.Sort(rows)
	return data.Subset(s, rows)
}

// digest returns a hash of the content of examples.
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
