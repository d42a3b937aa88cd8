package data

import (
	"fmt"
	"math"
	"slices"
)

// Kind says what a column's numbers mean to a network.
type Kind uint8

const (
	// Feature is a real number that the network reads.
	Feature Kind = iota
	// Label is the index of the right class, 0 ≤ label < Column.Classes. Of a
	// sequence of labels, one may be Pad: none is asked for there.
	Label
	// Target is a real number that the network is to predict.
	Target
	// Index is an entry of a vocabulary, 0 ≤ index < Column.Classes, or Pad.
	Index
)

func (k Kind) String() string {
	switch k {
	case Feature:
		return "feature"
	case Label:
		return "label"
	case Target:
		return "target"
	case Index:
		return "index"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// maxClasses is the largest count of which every index is exact in float32.
const maxClasses = 1 << 24

// Column describes one input of the network.
type Column struct {
	Name  string
	Kind  Kind
	Shape []int // of one example, without the batch axis; empty for a scalar
	// Classes counts the classes of a Label or the vocabulary of an Index: at
	// most 2^24, so that float32 holds every index exactly.
	Classes int
	// Bounds are the public limits by which a Target was scaled to [-1, 1], in its own
	// units; zero where its numbers are as they are.
	Bounds Bounds
	// Elements are what a feature's numbers were read from, where that decides their scale.
	Elements Elements
}

// bounded reports whether a target was scaled by limits.
func (c Column) bounded() bool { return c.Bounds != Bounds{} }

// Unit is the difference, in a target's own units, that 1 in the column stands for.
func (c Column) Unit() float64 {
	if !c.bounded() {
		return 1
	}
	return c.Bounds.Unit()
}

// Size is how many numbers one example has in this column.
func (c Column) Size() int {
	size := 1
	for _, n := range c.Shape {
		size *= n
	}
	return size
}

// padded reports whether Pad may stand in the column.
func (c Column) padded() bool { return c.Kind == Index || c.Kind == Label && len(c.Shape) > 0 }

func (c Column) equal(d Column) bool {
	return c.Name == d.Name && c.Kind == d.Kind && c.Classes == d.Classes && c.Bounds == d.Bounds && slices.Equal(c.Shape, d.Shape)
}

func (c Column) validate() error {
	room := math.MaxInt32
	for _, n := range c.Shape {
		if n < 1 {
			return fmt.Errorf("column %q has shape %v; every axis needs a length of at least 1", c.Name, c.Shape)
		}
		if room /= n; room == 0 {
			return fmt.Errorf("column %q has shape %v; an example may have at most 2^31-1 numbers in a column", c.Name, c.Shape)
		}
	}
	switch {
	case !c.bounded():
	case c.Kind != Target:
		return fmt.Errorf("column %q has bounds and is a %v; only a target's numbers stand for others", c.Name, c.Kind)
	case !c.Bounds.proper():
		return fmt.Errorf("the bounds of column %q are %v:%v; the low one must be below the high one, both finite", c.Name, c.Bounds[0], c.Bounds[1])
	}
	switch c.Kind {
	case Feature, Target:
	case Label, Index:
		if c.Classes < 1 || c.Classes > maxClasses {
			return fmt.Errorf("column %q counts %d classes; a %v needs between 1 and 2^24", c.Name, c.Classes, c.Kind)
		}
	default:
		return fmt.Errorf("column %q is of unknown %v", c.Name, c.Kind)
	}
	return nil
}

// fault says what is wrong with a value, or returns "". It never shows it.
func (c Column) fault(v float32) string {
	switch c.Kind {
	case Label, Index:
		if v == Pad && c.padded() {
			return ""
		}
		if !(v >= 0 && v < float32(c.Classes)) || v != float32(int32(v)) {
			return fmt.Sprintf("the %v is no whole number from 0 to %d", c.Kind, c.Classes-1)
		}
	default:
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return "the value is not a finite number"
		}
		if c.bounded() && !(v >= -1 && v <= 1) {
			return "the target is not scaled to lie between -1 and 1; scale it by its bounds"
		}
	}
	return ""
}

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

// Grouped is a Set that knows whose its examples are.
type Grouped interface {
	Set
	// Users holds each example's owner as a number from 0 on, or is nil where
	// every example is an owner of its own. The caller must not change it.
	Users() []int32
}

// Users returns the owner of each of a set's examples, nil if it knows none.
func Users(s Set) []int32 {
	if g, ok := s.(Grouped); ok {
		return g.Users()
	}
	return nil
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
	if sound(s) {
		return nil
	}
	return checkAll(s)
}

// sound reports whether a set was made by this package.
func sound(s Set) bool {
	switch s := s.(type) {
	case *Table, *Pictures, *texts:
		return true
	case *subset:
		return sound(s.of)
	case *concat:
		return !slices.ContainsFunc(s.parts, func(part Set) bool { return !sound(part) })
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
	if users := Users(s); users != nil {
		if err := checkUsers(users, s.Len()); err != nil {
			return err
		}
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
		if fault := c.fault(v); fault != "" {
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
