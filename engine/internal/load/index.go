package load

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/ranks"
)

// MaxExamples limits Records.Examples. A microbatch has at least as many rows.
const MaxExamples = 1 << 20

// WeightSteps is the number of steps of the largest weight of a record.
const WeightSteps = 1 << 20

// StepsOfWeight returns weight/limit, from 0 to 1, in WeightSteps, rounded down.
func StepsOfWeight(weight, limit float64) int64 {
	switch {
	case weight >= limit:
		return WeightSteps
	case weight > 0:
		return min(int64(weight/limit*WeightSteps), WeightSteps)
	}
	return 0
}

// Index maps records to the rows of a data set.
//
// PerRecord is the declared number, also where no record has as many examples: shapes, memory,
// speed and the fingerprint follow from it, and the size of the largest record is private.
type Index struct {
	PerRecord int       // rows of a record in a microbatch
	Records   int       // number of records
	Rows      int       // examples in the set
	start     []int     // users: where the owner's examples begin in order; records+1 entries
	order     []int     // users: examples, sorted by owner
	Blank     []bool    // examples that contribute nothing; nil if there are none
	weights   []float64 // of the examples, as the set has them; nil if there are none
}

// NewIndex divides a set into records of a number of examples or, with users, of at most this number
// of each owner; 0: the default, which owners do not have.
func NewIndex(s data.Set, examples int, ofUsers bool) (*Index, error) {
	d := &Index{PerRecord: max(1, examples), Rows: s.Len()}
	if examples < 0 || examples > MaxExamples {
		return nil, fmt.Errorf("Records.Examples is %d; give at least 1 and at most %d, or 0 for the default", examples, MaxExamples)
	}
	var err error
	if d.Blank, err = data.ValidatedBlank(s); err != nil {
		return nil, err
	}
	if d.weights, err = data.ValidatedWeights(s); err != nil {
		return nil, err
	}
	if !ofUsers {
		d.Records = (d.Rows + d.PerRecord - 1) / d.PerRecord
		return d, nil
	}
	users, err := data.ValidatedUsers(s)
	if err != nil {
		return nil, fmt.Errorf("user-level records: %w", err)
	}
	if users == nil {
		return nil, fmt.Errorf("user-level records: the data set does not name the owners of its examples; name the column of users, or pass the owners to data.NewTable")
	}
	if examples == 0 {
		return nil, fmt.Errorf("user-level records: Records.Examples is 0; set the number of examples of a user that take part, which is public and bounds the work for a user")
	}
	d.order = make([]int, d.Rows)
	for i := range d.order {
		d.order[i] = i
	}
	slices.SortStableFunc(d.order, func(a, b int) int { return int(users[a]) - int(users[b]) })
	for i, row := range d.order {
		if i == 0 || users[row] != users[d.order[i-1]] {
			d.start = append(d.start, i)
		}
	}
	d.Records = len(d.start)
	d.start = append(d.start, d.Rows)
	return d, nil
}

// bounds returns where the examples of a record begin and end: in order for users, otherwise in
// the data set.
func (d *Index) bounds(record int) (from, to int) {
	if d.order != nil {
		return d.start[record], d.start[record+1]
	}
	return record * d.PerRecord, min((record+1)*d.PerRecord, d.Rows)
}

// row returns the row of the set at a position between the bounds of a record.
func (d *Index) row(position int) int {
	if d.order != nil {
		return d.order[position]
	}
	return position
}

// isBlank reports whether all examples of a record are blank. Such a record keeps its place, so
// that it may be sampled, and contributes nothing: it is the zero-out neighbour of each record.
func (d *Index) isBlank(record int) bool {
	if d.Blank == nil {
		return false
	}
	for i, to := d.bounds(record); i < to; i++ {
		if !d.Blank[d.row(i)] {
			return false
		}
	}
	return true
}

// WithoutBlank removes the blank records from a list, in place.
func (d *Index) WithoutBlank(records []int) []int {
	if d.Blank == nil {
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

// Weight returns the weight of a record in WeightSteps: the mean weight of the examples that take
// part, each limited to the range from 0 to limit. It is 0 for a blank record.
func (d *Index) Weight(record int, limit float64) int64 {
	sum, n := int64(0), int64(0)
	from, to := d.bounds(record)
	for i := from; i < to && n < int64(d.PerRecord); i++ {
		row := d.row(i)
		if d.Blank == nil || !d.Blank[row] {
			sum += StepsOfWeight(d.weights[row], limit)
			n++
		}
	}
	return sum / max(n, 1)
}

// WriteParticipants writes the rows of a record that take part, and returns their number. For a blank
// record it is 0, and the first row is one of the record.
func (d *Index) WriteParticipants(record int, rows []int) (n int) {
	from, to := d.bounds(record)
	for i := from; i < to && n < d.PerRecord; i++ {
		row := d.row(i)
		if rows[n] = row; d.Blank == nil || !d.Blank[row] {
			n++
		}
	}
	return n
}

// WriteRows writes the rows of a record, and their weights unless weights is nil. Blank examples
// of the record do not take part. Where fewer examples take part than there are rows, the rest
// repeat an example of the record with weight 0, so that they contain no value that the record
// does not contain. Of a blank record all rows have weight 0.
func (d *Index) WriteRows(record int, rows []int, weights []float32) {
	n := d.WriteParticipants(record, rows)
	for i := max(n, 1); i < d.PerRecord; i++ {
		rows[i] = rows[0]
	}
	if weights == nil {
		return
	}
	for i := range d.PerRecord {
		weights[i] = 0
		if i < n {
			weights[i] = 1 / float32(n)
		}
	}
}

// ForEachRowOf calls add with the examples of the records that a rank of several computes.
func (d *Index) ForEachRowOf(rank, size int, add func(row int)) {
	for record := rank; record < d.Records; record += size {
		for i, to := d.bounds(record); i < to; i++ {
			add(d.row(i))
		}
	}
}

// RowsOf returns the rows of all records, as WriteRows writes them, with -1 for those of records that another of
// several ranks computes. Their number follows from public numbers.
func (d *Index) RowsOf(rank, size int) []int {
	rows := make([]int, d.Records*d.PerRecord)
	for record := range d.Records {
		own := rows[record*d.PerRecord:][:d.PerRecord]
		if size > 1 && ranks.Owner(record, size) != rank {
			for i := range own {
				own[i] = -1
			}
			continue
		}
		d.WriteRows(record, own, nil)
	}
	return rows
}

// ForEachMean calls add with the mean of the numbers of each record's examples. A blank record has none.
func (d *Index) ForEachMean(numbers []float64, add func(mean float64)) {
	rows := make([]int, d.PerRecord)
	for record := range d.Records {
		var sum float64
		n := d.WriteParticipants(record, rows)
		for _, row := range rows[:n] {
			sum += numbers[row]
		}
		if n > 0 {
			add(sum / float64(n))
		}
	}
}

// ShareBlank gives all ranks the numbers of the blank examples: each may know those of its own records only.
func (d *Index) ShareBlank(c ranks.Communicator) error {
	sizes := fmt.Sprint(d.Records, d.Rows, d.PerRecord)
	if err := ranks.RequireEqual(c, "numbers of records", []byte(sizes)); err != nil {
		return err
	}
	const bits = 32 // of a word; one rank sets each bit
	words := make([]int64, d.Rows/bits+1)
	if d.Blank != nil {
		d.ForEachRowOf(c.Rank(), c.Size(), func(row int) {
			if d.Blank[row] {
				words[row/bits] |= 1 << (row % bits)
			}
		})
	}
	if err := c.Sum(words); err != nil {
		return err
	}
	d.Blank = nil
	for row := range d.Rows {
		if words[row/bits]>>(row%bits)&1 != 0 {
			if d.Blank == nil {
				d.Blank = make([]bool, d.Rows)
			}
			d.Blank[row] = true
		}
	}
	return nil
}
