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
	// ElementType are what a feature's numbers were read from, where that decides their scale.
	ElementType ElementType
}

// bounded reports whether a target was scaled by limits.
func (c Column) bounded() bool { return c.Bounds != Bounds{} }

// ScaleFactor is the difference, in a target's own units, that 1 in the column stands for.
func (c Column) ScaleFactor() float64 {
	if !c.bounded() {
		return 1
	}
	return c.Bounds.ScaleFactor()
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

// problem says what is wrong with a value, or returns "". It never shows it.
func (c Column) problem(v float32) string {
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
