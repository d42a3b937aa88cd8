package data

import (
	"fmt"
	"slices"
)

// Table is a Set held in memory.
type Table struct {
	columns []Column
	sizes   []int
	values  [][]float32 // by column, with the examples in sequence
	users   []int32
	length  int
}

// NewTable makes a set from values[k], the concatenated vectors of column k of all
// examples. Users contains the user of each example, or is nil. The table keeps the
// slices: the caller must not change them afterwards. A value that is not finite or
// a label out of range is an error.
func NewTable(columns []Column, values [][]float32, users []int32) (*Table, error) {
	if len(columns) == 0 || len(columns) != len(values) {
		return nil, fmt.Errorf("a table of %d columns has values for %d; give each column its values, and at least one column", len(columns), len(values))
	}
	t := &Table{columns: slices.Clone(columns), values: slices.Clone(values), users: users}
	for k, c := range columns {
		if err := c.validate(); err != nil {
			return nil, err
		}
		if len(values[k])%c.Size() != 0 {
			return nil, fmt.Errorf("column %q has %d numbers, which is not a multiple of the %d numbers of one example", c.Name, len(values[k]), c.Size())
		}
		length := len(values[k]) / c.Size()
		if k == 0 {
			t.length = length
		} else if length != t.length {
			return nil, fmt.Errorf("column %q has %d examples, but column %q has %d", columns[0].Name, t.length, c.Name, length)
		}
		if err := checkValues(c, values[k], 0); err != nil {
			return nil, err
		}
	}
	t.sizes = sizesOf(columns)
	if users != nil {
		if err := checkUsers(users, t.length); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Len returns the number of examples.
func (t *Table) Len() int { return t.length }

// Columns describes the network's inputs, in order.
func (t *Table) Columns() []Column { return t.columns }

// Users returns the user of each example, or nil.
func (t *Table) Users() []int32 { return t.users }

// Read copies the given examples.
func (t *Table) Read(dst [][]float32, rows []int) error {
	if err := checkRead(t.columns, t.sizes, t.length, dst, rows); err != nil {
		return err
	}
	for k, size := range t.sizes {
		to, from := dst[k], t.values[k]
		if size == 1 {
			for i, r := range rows {
				to[i] = from[r]
			}
			continue
		}
		for i, r := range rows {
			copy(to[i*size:(i+1)*size], from[r*size:(r+1)*size])
		}
	}
	return nil
}
