package data

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Kind is the role of a column's numbers in a network.
type Kind uint8

// The kinds of columns.
const (
	// Feature is a real number that the network reads.
	Feature Kind = iota
	// Label is the index of the correct class, 0 ≤ label < Column.Classes. A label
	// in a sequence of labels may be Pad: then no prediction is expected for its step.
	Label
	// Target is a real number that the network predicts.
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

// maxClasses is the largest number of classes for which float32 represents every
// index exactly.
const maxClasses = 1 << 24

// Column describes one input of the network.
type Column struct {
	Name  string
	Kind  Kind
	Shape []int // of one example, without the batch axis; empty for a scalar
	// Classes is the number of classes of a Label or the vocabulary size of an Index.
	// It is at most 2^24, so that float32 represents every index exactly.
	Classes int
	// Marked is set if an Index can have a mark: index + Classes is an index with a mark. Of the texts of a pair, the
	// second is marked.
	Marked bool
	// Bounds are the public limits by which a Target was scaled to [-1, 1], in the
	// target's own units. They are zero if the target is not scaled.
	Bounds Bounds
	// ElementType is the type that a feature's numbers were read from, if it
	// determines their scale.
	ElementType ElementType
}

// bounded reports whether a target was scaled by its bounds.
func (c Column) bounded() bool { return c.Bounds != Bounds{} }

// ScaleFactor is the difference, in a target's own units, of two targets that
// differ by 1 in the column.
func (c Column) ScaleFactor() float64 {
	if !c.bounded() {
		return 1
	}
	return c.Bounds.ScaleFactor()
}

// Size is the number of values that one example has in this column.
func (c Column) Size() int {
	size := 1
	for _, n := range c.Shape {
		size *= n
	}
	return size
}

// values is the number of values that a Label or an Index can have.
func (c Column) values() int {
	if c.Marked {
		return 2 * c.Classes
	}
	return c.Classes
}

// padded reports whether the column may contain Pad.
func (c Column) padded() bool { return c.Kind == Index || c.Kind == Label && len(c.Shape) > 0 }

func (c Column) equal(d Column) bool {
	return c.Name == d.Name && c.Kind == d.Kind && c.Classes == d.Classes && c.Marked == d.Marked && c.Bounds == d.Bounds &&
		slices.Equal(c.Shape, d.Shape)
}

func (c Column) validate() error {
	limit := math.MaxInt32
	for _, n := range c.Shape {
		if n < 1 {
			return fmt.Errorf("column %q has shape %v; every axis needs a length of at least 1", c.Name, c.Shape)
		}
		if limit /= n; limit == 0 {
			return fmt.Errorf("column %q has shape %v; an example may have at most 2^31-1 numbers in a column", c.Name, c.Shape)
		}
	}
	switch {
	case !c.bounded():
	case c.Kind != Target:
		return fmt.Errorf("column %q is a %v and has bounds; only a target has bounds", c.Name, c.Kind)
	case !c.Bounds.valid():
		return fmt.Errorf("the bounds of column %q are %v:%v; the lower one must be less than the upper one, and both must be finite", c.Name, c.Bounds[0], c.Bounds[1])
	}
	switch c.Kind {
	case Feature, Target:
	case Label, Index:
		if c.Classes < 1 || c.Classes > maxClasses {
			return fmt.Errorf("column %q has %d classes; a %v needs between 1 and 2^24", c.Name, c.Classes, c.Kind)
		}
		if c.Marked && (c.Kind != Index || c.Classes > maxClasses/2) {
			return fmt.Errorf("column %q has %d classes and marks; only an index has marks, and at most 2^23 classes then", c.Name, c.Classes)
		}
	default:
		return fmt.Errorf("column %q has unknown %v", c.Name, c.Kind)
	}
	return nil
}

// problem describes an invalid value without showing it. It returns "" for a valid
// value.
func (c Column) problem(v float32) string {
	switch c.Kind {
	case Label, Index:
		if v == Pad && c.padded() {
			return ""
		}
		if !(v >= 0 && v < float32(c.values())) || v != float32(int32(v)) {
			return fmt.Sprintf("the %v is not a whole number from 0 to %d", c.Kind, c.values()-1)
		}
	default:
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return "the value is not a finite number"
		}
		if c.bounded() && !(v >= -1 && v <= 1) {
			return "the target is not between -1 and 1; scale it by its bounds"
		}
	}
	return ""
}

// Bounds are the public limits of a numeric column, lower and upper.
type Bounds [2]float64

// valid reports whether the bounds are finite and there are numbers between them.
func (b Bounds) valid() bool {
	width := b[1] - b[0]
	return width > 0 && width <= 1e300
}

// Scale maps a number between the bounds to [-1, 1]. It clips a number outside the
// bounds to the nearer bound first.
func (b Bounds) Scale(v float64) float32 {
	low, high := b[0], b[1]
	v = min(max(v, low), high)
	return float32(2*((v-low)/(high-low)) - 1)
}

// Unscale inverts Scale without clipping. It converts a network's prediction to
// the target's own units.
func (b Bounds) Unscale(x float64) float64 { return b[0] + (x+1)*b.ScaleFactor() }

// ScaleFactor is the difference of two numbers that differ by 1 after scaling.
func (b Bounds) ScaleFactor() float64 { return (b[1] - b[0]) / 2 }

// ParseBounds parses the value of the flag --bounds: COLUMN=LOW:HIGH, with commas
// between several.
func ParseBounds(text string) (map[string]Bounds, error) {
	bounds := map[string]Bounds{}
	for _, entry := range splitList(text, ",") {
		cut := strings.LastIndex(entry, "=")
		var b Bounds
		if cut < 1 || b.parse(entry[cut+1:]) != nil {
			return nil, fmt.Errorf("bounds %q: write COLUMN=LOW:HIGH, such as age=0:120", entry)
		}
		bounds[strings.TrimSpace(entry[:cut])] = b
	}
	return bounds, Schema{Bounds: bounds}.validate()
}

// parse reads LOW:HIGH.
func (b *Bounds) parse(text string) error {
	low, high, ok := strings.Cut(text, ":")
	l, errLow := strconv.ParseFloat(strings.TrimSpace(low), 64)
	h, errHigh := strconv.ParseFloat(strings.TrimSpace(high), 64)
	if !ok || errLow != nil || errHigh != nil {
		return fmt.Errorf("bounds %q: write LOW:HIGH, such as 0:120", text)
	}
	*b = Bounds{l, h}
	return nil
}

// ElementType is the type that an array's numbers were read from. It determines
// their scale: a network reads different numbers for a picture saved as bytes and
// the same picture saved as floating-point numbers.
type ElementType string

// The element types.
const (
	Bytes   ElementType = "bytes"   // scaled to [0, 1], and standardized if requested
	Numbers ElementType = "numbers" // not scaled
)

// CheckCompatible returns an error if a network that was trained on another element
// type cannot read elements of this type. An unknown type, "", is compatible with
// every type.
func (e ElementType) CheckCompatible(trained ElementType) error {
	switch {
	case e == trained || e == "" || trained == "":
		return nil
	case trained == Bytes:
		return errors.New("the examples are numbers, which are not scaled, and the model was trained on bytes, which are scaled to [0, 1]; save x as uint8 with values from 0 to 255")
	}
	return errors.New("the examples are bytes, which are scaled to [0, 1], and the model was trained on numbers, which are not scaled; save x as float32 with the scale of the training data")
}
