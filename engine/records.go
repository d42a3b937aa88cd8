package engine

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/engine/data"
)

// Records says what is protected: the unit by one of which data sets may differ, in the
// way that [Adjacency] says.
//
// The zero value protects examples. With Examples K, each run of K neighbouring
// examples is one record whose gradients are averaged before clipping (McMahan
// et al. 2019, table 1). With Users, all examples of one owner are a record, at
// most Examples of them: the first ones, in the order of the data; the rest take
// no part. Gradients are averaged over as many as take part.
type Records struct {
	Examples int
	Users    bool
}

// Unit is the record's name in the ledger.
func (r Records) Unit() string {
	switch {
	case r.Users:
		return "user"
	case r.Examples > 1:
		return fmt.Sprintf("microbatch:%d", r.Examples)
	}
	return "example"
}

// deck deals records: which rows of the data set are whose.
type deck struct {
	per   int   // slots of a record in a microbatch
	count int   // records
	rows  int   // examples in the set
	start []int // users: where in order the owner's examples begin; count+1 of them
	order []int // users: examples, owner by owner
}

func newDeck(s data.Set, r Records) (*deck, error) {
	d := &deck{per: max(1, min(r.Examples, s.Len())), rows: s.Len()}
	if r.Examples < 0 {
		return nil, fmt.Errorf("records of %d examples: at least one is needed", r.Examples)
	}
	if !r.Users {
		d.count = (d.rows + d.per - 1) / d.per
		return d, nil
	}
	users, err := data.ValidatedUsers(s)
	if err != nil {
		return nil, fmt.Errorf("user-level records: %w", err)
	}
	if users == nil {
		return nil, fmt.Errorf("user-level records: the data set does not say whose its examples are; name the column, or give data.NewTable the owners")
	}
	if r.Examples == 0 {
		return nil, fmt.Errorf("user-level records: say how many examples of a user may take part; the number is public and bounds the work a user makes")
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
	d.count = len(d.start)
	d.start = append(d.start, d.rows)
	return d, nil
}

// deal lists the rows of a record in its slots of a microbatch. Slots that the
// record does not fill repeat its first example with weight 0, so that nothing
// in them can be worse than what the record itself holds.
func (d *deck) deal(record int, rows []int, weights []float32) {
	n := 1
	switch {
	case d.order != nil:
		n = min(d.per, d.start[record+1]-d.start[record])
		copy(rows, d.order[d.start[record]:d.start[record]+n])
	default:
		n = min(d.per, d.rows-record*d.per)
		for i := range n {
			rows[i] = record*d.per + i
		}
	}
	for i := n; i < d.per; i++ {
		rows[i] = rows[0]
	}
	if weights == nil {
		return
	}
	for i := range d.per {
		weights[i] = 0
		if i < n {
			weights[i] = 1 / float32(n)
		}
	}
}

// RecordCount is how many records a set holds; 0 where the set does not know its
// users.
func RecordCount(s data.Set, r Records) int {
	d, err := newDeck(s, r)
	if err != nil {
		return 0
	}
	return d.count
}
