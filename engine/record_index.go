package engine

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/engine/data"
)

// Records defines the unit of privacy: neighbouring data sets differ in one record, as
// [Sampling.Adjacency] defines.
//
// The zero value protects examples. With Examples K, each run of K consecutive examples is one
// record, whose gradients are averaged before clipping (McMahan et al. 2019, table 1). With
// Users, all examples of one owner are a record. Its first Examples examples, in the order of
// the data, take part; the rest do not. Gradients are averaged over the examples that take
// part.
type Records struct {
	Examples int  // examples in a record, or the most examples of a user that take part
	Users    bool // all examples of one owner are a record
}

// Unit returns the record's name in the ledger.
func (r Records) Unit() string {
	switch {
	case r.Users:
		return "user"
	case r.Examples > 1:
		return fmt.Sprintf("microbatch:%d", r.Examples)
	}
	return "example"
}

// maxExamples limits Records.Examples. A microbatch has at least as many rows.
const maxExamples = 1 << 20

// recordIndex maps records to the rows of a data set.
//
// perRecord is the declared number, also where no record has as many examples: shapes, memory,
// speed and the fingerprint follow from it, and the size of the largest record is private.
type recordIndex struct {
	perRecord int       // rows of a record in a microbatch
	records   int       // number of records
	rows      int       // examples in the set
	start     []int     // users: where the owner's examples begin in order; records+1 entries
	order     []int     // users: examples, sorted by owner
	blank     []bool    // examples that contribute nothing; nil if there are none
	weights   []float64 // of the examples, as the set has them; nil if there are none
}

func newRecordIndex(s data.Set, r Records) (*recordIndex, error) {
	d := &recordIndex{perRecord: max(1, r.Examples), rows: s.Len()}
	if r.Examples < 0 || r.Examples > maxExamples {
		return nil, fmt.Errorf("Records.Examples is %d; give at least 1 and at most %d, or 0 for the default", r.Examples, maxExamples)
	}
	var err error
	if d.blank, err = data.ValidatedBlank(s); err != nil {
		return nil, err
	}
	if d.weights, err = data.ValidatedWeights(s); err != nil {
		return nil, err
	}
	if !r.Users {
		d.records = (d.rows + d.perRecord - 1) / d.perRecord
		return d, nil
	}
	users, err := data.ValidatedUsers(s)
	if err != nil {
		return nil, fmt.Errorf("user-level records: %w", err)
	}
	if users == nil {
		return nil, fmt.Errorf("user-level records: the data set does not name the owners of its examples; name the column of users, or pass the owners to data.NewTable")
	}
	if r.Examples == 0 {
		return nil, fmt.Errorf("user-level records: Records.Examples is 0; set the number of examples of a user that take part, which is public and bounds the work for a user")
	}
	d.order = make([]int, d.rows)
	for i := range d.order {
		d.order[i] = i
	}
	slices.SortStableFunc(d.order, func(a, b int) int { return int(users[a]) - int(users[b]) })
	for i, row := range d.order {
		if i == 0 || users[row] != users[d.order[i-1]] {
			d.start = append(d.start, i)
		}
	}
	d.records = len(d.start)
	d.start = append(d.start, d.rows)
	return d, nil
}

// bounds returns where the examples of a record begin and end: in order for users, otherwise in
// the data set.
func (d *recordIndex) bounds(record int) (from, to int) {
	if d.order != nil {
		return d.start[record], d.start[record+1]
	}
	return record * d.perRecord, min((record+1)*d.perRecord, d.rows)
}

// row returns the row of the set at a position between the bounds of a record.
func (d *recordIndex) row(position int) int {
	if d.order != nil {
		return d.order[position]
	}
	return position
}

// isBlank reports whether all examples of a record are blank. Such a record keeps its place, so
// that it may be sampled, and contributes nothing: it is the zero-out neighbour of each record.
func (d *recordIndex) isBlank(record int) bool {
	if d.blank == nil {
		return false
	}
	for i, to := d.bounds(record); i < to; i++ {
		if !d.blank[d.row(i)] {
			return false
		}
	}
	return true
}

// withoutBlank removes the blank records from a list, in place.
func (d *recordIndex) withoutBlank(records []int) []int {
	if d.blank == nil {
		return records
	}
	kept := records[:0]
	for _, record := range records {
		if !d.isBlank(record) {
			kept = append(kept, record)
		}
	}
	return kept
}

// weight returns the weight of a record in weightSteps: the mean weight of the examples that take
// part, each limited to the range of w. It is 0 for a blank record.
func (d *recordIndex) weight(record int, w Weights) int64 {
	sum, n := int64(0), int64(0)
	from, to := d.bounds(record)
	for i := from; i < to && n < int64(d.perRecord); i++ {
		row := d.row(i)
		if d.blank == nil || !d.blank[row] {
			sum += w.steps(d.weights[row])
			n++
		}
	}
	return sum / max(n, 1)
}

// writeParticipants writes the rows of a record that take part, and returns their number. For a blank
// record it is 0, and the first row is one of the record.
func (d *recordIndex) writeParticipants(record int, rows []int) (n int) {
	from, to := d.bounds(record)
	for i := from; i < to && n < d.perRecord; i++ {
		row := d.row(i)
		if rows[n] = row; d.blank == nil || !d.blank[row] {
			n++
		}
	}
	return n
}

// writeRows writes the rows of a record, and their weights unless weights is nil. Blank examples
// of the record do not take part. Where fewer examples take part than there are rows, the rest
// repeat an example of the record with weight 0, so that they contain no value that the record
// does not contain. Of a blank record all rows have weight 0.
func (d *recordIndex) writeRows(record int, rows []int, weights []float32) {
	n := d.writeParticipants(record, rows)
	for i := max(n, 1); i < d.perRecord; i++ {
		rows[i] = rows[0]
	}
	if weights == nil {
		return
	}
	for i := range d.perRecord {
		weights[i] = 0
		if i < n {
			weights[i] = 1 / float32(n)
		}
	}
}

// PublicRecordCount returns the number of training records that a run of c states:
// Sampling.Population or, without it, the number of records in Train.
func PublicRecordCount(c Config) int {
	if c.Sampling.Population > 0 {
		return c.Sampling.Population
	}
	return RecordCount(c.Train, c.Records)
}

// RecordCount returns the number of records in a set; 0 where the index cannot be built, for
// example because the set does not name its users.
func RecordCount(s data.Set, r Records) int {
	d, err := newRecordIndex(s, r)
	if err != nil {
		return 0
	}
	return d.records
}
