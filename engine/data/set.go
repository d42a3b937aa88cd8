package data

import (
	"fmt"
	"slices"
)

// Set is a sequence of examples. Column k of an example is a vector of
// Columns()[k].Size() numbers, the network's k-th input; labels and indices are
// whole numbers stored as float32.
//
// A Set does not change, and its methods may be called from several goroutines
// at once.
type Set interface {
	// Len is the number of examples.
	Len() int
	// Columns describes the network's inputs, in order.
	Columns() []Column
	// Read copies the given examples: column k of example rows[i] goes to
	// dst[k][i*size : (i+1)*size]. It does not allocate.
	Read(dst [][]float32, rows []int) error
}

// UserSet is a Set that knows whose its examples are.
type UserSet interface {
	Set
	// Users holds each example's owner as a number from 0 on, or is nil where
	// every example is an owner of its own. The caller must not change it.
	Users() []int32
}

// Users returns the owner of each of a set's examples, nil if it knows none.
func Users(s Set) []int32 {
	if g, ok := s.(UserSet); ok {
		return g.Users()
	}
	return nil
}

// ValidatedUsers are Users, and an error where these cannot be the owners of the set's examples.
func ValidatedUsers(s Set) ([]int32, error) {
	users := Users(s)
	if users == nil {
		return nil, nil
	}
	return users, checkUsers(users, s.Len())
}

// Task is what a network is to learn: examples to train on and to test with.
type Task struct {
	Name  string
	Train Set
	// Test is nil where no test examples were given. They are not protected:
	// an accuracy measured on them is a function of them.
	Test    Set
	Classes int // 0 where a target is predicted
	// ClassNames has a name for each class, or is nil.
	ClassNames []string
	// Schema is what was said of the columns, with all that it needed from other
	// files; it reads another file as this one was read.
	Schema Schema
	// Private is false only where nobody stands behind the examples.
	Private bool
}

// Check reads a set once and says what a network could not be trained on: a
// value that is not finite, a label or index out of range. Sets made by this
// package were checked when they were made; Check is for a set of one's own.
func Check(s Set) error {
	if validated(s) {
		return nil
	}
	return checkAll(s)
}

// validated reports whether a set was made by this package.
func validated(s Set) bool {
	switch s := s.(type) {
	case *Table, *Pictures, *tokenSequences:
		return true
	case *subset:
		return validated(s.of)
	case *concat:
		return !slices.ContainsFunc(s.parts, func(part Set) bool { return !validated(part) })
	}
	return false
}

func checkAll(s Set) error {
	columns := s.Columns()
	if len(columns) == 0 {
		return fmt.Errorf("the set has no column; a network needs at least one input")
	}
	const batch = 64
	dst := make([][]float32, len(columns))
	for k, c := range columns {
		if err := c.validate(); err != nil {
			return err
		}
		dst[k] = make([]float32, batch*c.Size())
	}
	if _, err := ValidatedUsers(s); err != nil {
		return err
	}
	rows := make([]int, 0, batch)
	for first := 0; first < s.Len(); first += batch {
		rows = rows[:0]
		for r := first; r < min(first+batch, s.Len()); r++ {
			rows = append(rows, r)
		}
		for k, c := range columns {
			dst[k] = dst[k][:len(rows)*c.Size()]
		}
		if err := s.Read(dst, rows); err != nil {
			return err
		}
		for k, c := range columns {
			if err := checkValues(c, dst[k], first); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkValues checks the values of a column whose first example is numbered
// first.
func checkValues(c Column, values []float32, first int) error {
	for i, v := range values {
		if fault := c.problem(v); fault != "" {
			return fmt.Errorf("example %d, column %q: %s", first+i/c.Size(), c.Name, fault)
		}
	}
	return nil
}

func checkUsers(users []int32, examples int) error {
	if len(users) != examples {
		return fmt.Errorf("%d examples have %d owners; give one owner an example", examples, len(users))
	}
	for i, u := range users {
		if u < 0 {
			return fmt.Errorf("example %d has a negative owner; owners are numbered from 0", i)
		}
	}
	return nil
}

// checkRead guards every Read: it allocates only when something is wrong.
func checkRead(columns []Column, sizes []int, examples int, dst [][]float32, rows []int) error {
	if len(dst) != len(sizes) {
		return fmt.Errorf("read into %d buffers; the set has %d columns", len(dst), len(sizes))
	}
	for k, size := range sizes {
		if len(dst[k]) != len(rows)*size {
			return fmt.Errorf("the buffer of column %q holds %d numbers; %d examples need %d", columns[k].Name, len(dst[k]), len(rows), len(rows)*size)
		}
	}
	for _, r := range rows {
		if r < 0 || r >= examples {
			return fmt.Errorf("there is no example %d; the set has %d, numbered from 0", r, examples)
		}
	}
	return nil
}

func sizesOf(columns []Column) []int {
	sizes := make([]int, len(columns))
	for k, c := range columns {
		sizes[k] = c.Size()
	}
	return sizes
}
