package engine

import (
	"fmt"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
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

// index divides a set into records.
func (r Records) index(s data.Set) (*load.Index, error) {
	return load.NewIndex(s, r.Examples, r.Users)
}

// PublicRecordCount returns the number of training records that a run of c states:
// Sampling.Population or, without it, the number of records in Train.
func (c Config) PublicRecordCount() int {
	if c.Sampling.Population > 0 {
		return c.Sampling.Population
	}
	return c.Records.Count(c.Train)
}

// Count returns the number of records in a set; 0 where the index cannot be built, for
// example because the set does not name its users.
func (r Records) Count(s data.Set) int {
	d, err := r.index(s)
	if err != nil {
		return 0
	}
	return d.Records
}
