package data

import (
	"fmt"
	"slices"
)

// Set is a sequence of examples. Column k of an example is a vector of
// Columns()[k].Size() numbers, and it is the network's k-th input. Labels and
// indices are whole numbers stored as float32.
//
// A Set does not change. Several goroutines may call its methods at the same time.
type Set interface {
	// Len returns the number of examples.
	Len() int
	// Columns describes the network's inputs, in order.
	Columns() []Column
	// Read copies the given examples: column k of example rows[i] goes to
	// dst[k][i*size : (i+1)*size]. It does not allocate.
	Read(dst [][]float32, rows []int) error
}

// UserSet is a Set that knows the user that each of its examples belongs to.
type UserSet interface {
	Set
	// Users returns each example's user as a number from 0. It returns nil if
	// every example belongs to a different user. The caller must not change it.
	Users() []int32
}

// Users returns the user of each of a set's examples, or nil if the set does not
// know its users.
func Users(s Set) []int32 {
	if u, ok := s.(UserSet); ok {
		return u.Users()
	}
	return nil
}

// ValidatedUsers returns Users(s). It returns an error if there is not exactly one
// user for each example or a user is negative.
func ValidatedUsers(s Set) ([]int32, error) {
	users := Users(s)
	if users == nil {
		return nil, nil
	}
	return users, checkUsers(users, s.Len())
}

// WeightSet is a Set that knows the weight of each of its examples in a weighted mean.
type WeightSet interface {
	Set
	// Weights returns each example's weight, which may be any number, also NaN: a user of
	// the set limits it to a public range. It returns nil if the set has no weights. The weights are
	// private. The caller must not change them.
	Weights() []float64
}

// Weights returns the weight of each of a set's examples, or nil if the set has none. The result is
// private.
func Weights(s Set) []float64 {
	if w, ok := s.(WeightSet); ok {
		return w.Weights()
	}
	return nil
}

// ValidatedWeights returns Weights(s). It returns an error if there is not exactly one weight for
// each example.
func ValidatedWeights(s Set) ([]float64, error) {
	weights := Weights(s)
	if weights != nil && len(weights) != s.Len() {
		return nil, fmt.Errorf("%d examples have %d weights; give each example one", s.Len(), len(weights))
	}
	return weights, nil
}

// weighted is a set with weights.
type weighted struct {
	Set
	weights []float64
}

func (w *weighted) Weights() []float64 { return w.weights }
func (w *weighted) Users() []int32     { return Users(w.Set) }
func (w *weighted) Blank() []bool      { return Blank(w.Set) }

// WithWeights returns a set with these weights of its examples. It keeps the slice.
func WithWeights(s Set, weights []float64) (Set, error) {
	if weights == nil {
		return s, nil
	}
	w := &weighted{s, weights}
	_, err := ValidatedWeights(w)
	return w, err
}

// overheadBytes is an upper bound of the memory of an example beside its numbers: its user, its
// weight, its place in a subset.
const overheadBytes = 128

// ExampleBytes returns the memory that an example of a set takes at most, as it follows from the
// columns: it does not depend on the content of the examples. It is 0 for a set that this package
// did not make.
func ExampleBytes(s Set) int {
	switch s := s.(type) {
	case *Pictures: // a byte for each pixel
		return overheadBytes + s.sizes[0]
	case *Table:
		return overheadBytes + bytesOf(s.sizes)
	case *tokenSequences:
		return overheadBytes + bytesOf(s.sizes)
	case fixedMasks:
		return ExampleBytes(s.Set)
	case *partlyBlank:
		return ExampleBytes(s.Set)
	case *weighted:
		return ExampleBytes(s.Set)
	case *sharded:
		return ExampleBytes(s.Set)
	case *withStates:
		_, cells, _ := ValidatedCellStates(s)
		return cells + ExampleBytes(s.Set)
	case *subset:
		return ExampleBytes(s.parent)
	case *concat:
		most := 0
		for _, part := range s.parts {
			most = max(most, ExampleBytes(part))
		}
		return most
	}
	return 0
}

// bytesOf returns the memory of the numbers of an example.
func bytesOf(sizes []int) (bytes int) {
	for _, size := range sizes {
		bytes += 4 * size
	}
	return bytes
}

// Task is a learning task: a training set, a test set and what they mean.
type Task struct {
	Name  string
	Train Set
	// Test is nil if there are no test examples. Test examples are not protected:
	// an accuracy measured on them depends on them.
	Test    Set
	Classes int // 0 if a target is predicted
	// ClassNames has a name for each class, or is nil.
	ClassNames []string
	// Schema describes the columns, with the content of the other files that it
	// refers to. It reads another file in the same way.
	Schema Schema
	// Split describes how SplitTest made the test part; nil if it did not.
	Split *Split
	// Resampling describes how pictures of other sizes were converted; nil if they were not, or by means of areas.
	Resampling *Resampling
	// Private is false only if the examples contain no person's data.
	Private bool
}

// Check reads a set once and returns an error if it has a value that is not finite,
// or a label or index out of range. The sets made by this package are checked when
// they are made. Check is for your own implementations of Set.
func Check(s Set) error {
	if validated(s) {
		return nil
	}
	return checkAll(s)
}

// validated reports whether this package made the set, and so checked its values.
func validated(s Set) bool {
	switch s := s.(type) {
	case *Table, *Pictures, *tokenSequences:
		return true
	case *partlyBlank:
		return validated(s.Set)
	case fixedMasks:
		return validated(s.Set)
	case *sharded:
		return validated(s.Set)
	case *weighted:
		return validated(s.Set)
	case *withStates:
		return validated(s.Set)
	case *Cropped:
		return validated(s.whole)
	case *subset:
		return validated(s.parent)
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
	if _, err := ValidatedBlank(s); err != nil {
		return err
	}
	if _, err := ValidatedWeights(s); err != nil {
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

// checkValues checks the values of a column. The number of the first example is
// first.
func checkValues(c Column, values []float32, first int) error {
	anyNumber := c.Kind == Feature || c.Kind == Target && !c.bounded()
	for i, v := range values {
		if anyNumber && v-v == 0 { // finite
			continue
		}
		if problem := c.problem(v); problem != "" {
			return fmt.Errorf("example %d, column %q: %s", first+i/c.Size(), c.Name, problem)
		}
	}
	return nil
}

func checkUsers(users []int32, examples int) error {
	if len(users) != examples {
		return fmt.Errorf("%d examples have %d users; give each example one user", examples, len(users))
	}
	for i, u := range users {
		if u < 0 {
			return fmt.Errorf("example %d has a negative user; users are numbered from 0", i)
		}
	}
	return nil
}

// checkRead checks the arguments of Read. It allocates only for an error.
func checkRead(columns []Column, sizes []int, examples int, dst [][]float32, rows []int) error {
	if len(dst) != len(sizes) {
		return fmt.Errorf("read into %d buffers; the set has %d columns", len(dst), len(sizes))
	}
	for k, size := range sizes {
		if len(dst[k]) != len(rows)*size {
			return fmt.Errorf("the buffer of column %q has %d numbers; %d examples need %d", columns[k].Name, len(dst[k]), len(rows), len(rows)*size)
		}
	}
	for _, r := range rows {
		if r < 0 || r >= examples {
			return fmt.Errorf("there is no example %d; the set has %d examples, numbered from 0", r, examples)
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
