package load

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/engine/data"
)

// Divide divides a set into a training set and n held-out records, in the order of divisionOrder.
func (d *Index) Divide(s data.Set, n int) (train, heldOut data.Set, err error) {
	if n < 1 || n >= d.Records {
		return nil, nil, fmt.Errorf("cannot hold out %d records: both sides need at least one record; hold out fewer", n)
	}
	order, err := d.divisionOrder(s)
	if err != nil {
		return nil, nil, err
	}
	if train, err = d.subset(s, order[:d.Records-n]); err != nil {
		return nil, nil, err
	}
	heldOut, err = d.subset(s, order[d.Records-n:])
	return train, heldOut, err
}

// divisionOrder returns all records in the order that engine.Records.HoldOut describes.
func (d *Index) divisionOrder(s data.Set) ([]int, error) {
	digests := newRecordDigests(s, d)
	var blank, order []int
	keys := make([][sha256.Size]byte, d.Records)
	seen := map[[sha256.Size]byte]uint64{}
	for record := range d.Records {
		if d.isBlank(record) {
			blank = append(blank, record)
			continue
		}
		digest, err := digests.of(record)
		if err != nil {
			return nil, err
		}
		keys[record] = sha256.Sum256(binary.LittleEndian.AppendUint64(digest[:], seen[digest]))
		seen[digest]++
		order = append(order, record)
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(keys[a][:], keys[b][:]) })
	return append(blank, order...), nil
}

// subset returns the examples of records, in the order of the data.
func (d *Index) subset(s data.Set, records []int) (data.Set, error) {
	var rows []int
	for _, record := range records {
		for i, to := d.bounds(record); i < to; i++ {
			rows = append(rows, d.row(i))
		}
	}
	slices.Sort(rows)
	return data.Subset(s, rows)
}

// recordDigests computes digests of records. It reads one example at a time, so its memory does not
// depend on a record.
type recordDigests struct {
	set     data.Set
	index   *Index
	example [][]float32 // a column each
	states  []data.CellState
	cells   int // states of an example
	text    []byte
}

func newRecordDigests(s data.Set, d *Index) *recordDigests {
	if whole := data.Uncropped(s); whole != nil {
		s = whole // a view can be a window at any place
	}
	r := &recordDigests{set: s, index: d}
	r.states, r.cells, _ = data.ValidatedCellStates(s)
	for _, c := range s.Columns() {
		r.example = append(r.example, make([]float32, c.Size()))
	}
	return r
}

// of returns the digest of a record's examples, in the order of the data. The numbers that a blank
// example has do not count. The weight is the one of the set: it determines the limited weight for
// all limits.
func (r *recordDigests) of(record int) (digest [sha256.Size]byte, err error) {
	sum := sha256.New()
	d := r.index
	for i, to := d.bounds(record); i < to; i++ {
		row := d.row(i)
		if d.Blank != nil && d.Blank[row] {
			sum.Write([]byte{0})
			continue
		}
		if err := r.set.Read(r.example, []int{row}); err != nil {
			return digest, err
		}
		r.text = append(r.text[:0], 1)
		for _, column := range r.example {
			for _, v := range column {
				r.text = binary.LittleEndian.AppendUint32(r.text, math.Float32bits(v))
			}
		}
		if d.weights != nil {
			r.text = binary.LittleEndian.AppendUint64(r.text, math.Float64bits(d.weights[row]))
		}
		for _, state := range r.states[r.cells*row : r.cells*(row+1)] {
			r.text = append(r.text, byte(state))
		}
		sum.Write(r.text)
	}
	return [sha256.Size]byte(sum.Sum(nil)), nil
}
