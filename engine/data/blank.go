package data

import (
	"fmt"
	"slices"
)

// BadRowPolicy is the treatment of a private example that cannot be read, such as a row with an
// unknown class or a damaged picture.
type BadRowPolicy string

const (
	// BlankBadRows makes the example blank: it keeps its place among the examples and
	// contributes nothing. Neither an error nor the number of examples depends on its
	// content, so a bad example is as private as a good one. It is the default.
	BlankBadRows BadRowPolicy = "blank"
	// FailOnBadRow ends with an error that names the example. Whether the error occurs and
	// its text depend on private data, and the error states this.
	FailOnBadRow BadRowPolicy = "fail"
)

// BadRowPolicies returns the names of the policies.
func BadRowPolicies() []string { return []string{string(BlankBadRows), string(FailOnBadRow)} }

// BlankSet is a Set that knows which of its examples are blank. A blank example contributes
// nothing to training: no gradient, no statistic and no count. It exists so that replacing an
// example by an unreadable one is the zero-out relation between data sets (Kairouz et al. 2021,
// "Practical and Private (Deep) Learning without Sampling or Shuffling").
type BlankSet interface {
	Set
	// Blank reports for each example whether it is blank. It returns nil if no example is.
	// The result is private. The caller must not change it.
	Blank() []bool
}

// Blank reports for each example of a set whether it is blank. It returns nil if no example is.
// The result is private.
func Blank(s Set) []bool {
	if b, ok := s.(BlankSet); ok {
		return b.Blank()
	}
	return nil
}

// ValidatedBlank returns Blank(s). It returns an error if there is not exactly one entry for
// each example.
func ValidatedBlank(s Set) ([]bool, error) {
	blank := Blank(s)
	if blank != nil && len(blank) != s.Len() {
		return nil, fmt.Errorf("%d examples have %d entries that report whether they are blank; give each example one", s.Len(), len(blank))
	}
	return blank, nil
}

// partlyBlank is a set in which some examples are blank.
type partlyBlank struct {
	Set
	blank []bool
}

func (p *partlyBlank) Blank() []bool      { return p.blank }
func (p *partlyBlank) Users() []int32     { return Users(p.Set) }
func (p *partlyBlank) Weights() []float64 { return Weights(p.Set) }

// withBlank returns a set with blank examples.
func withBlank(s Set, blank []bool) Set {
	if !slices.Contains(blank, true) {
		return s
	}
	return &partlyBlank{s, blank}
}

// rowPolicy is a BadRowPolicy for one part of a data set. The zero value is for public parts: an
// error names the example.
type rowPolicy struct {
	private, blank bool
	shard          Shard
}

// rowPolicy returns the policy for the private part.
func (p BadRowPolicy) rowPolicy() (rowPolicy, error) {
	switch p {
	case "", BlankBadRows:
		return rowPolicy{private: true, blank: true}, nil
	case FailOnBadRow:
		return rowPolicy{private: true}, nil
	}
	return rowPolicy{}, fmt.Errorf("bad rows are treated by %q; give %s or %s", p, BlankBadRows, FailOnBadRow)
}

// privatePolicy returns the policy for the private part.
func (o Options) privatePolicy() (rowPolicy, error) {
	p, err := o.OnBadRow.rowPolicy()
	p.shard = o.Shard
	return p, err
}

// resolve returns nil if the example that caused err becomes blank. Otherwise it returns the error
// to report.
func (p rowPolicy) resolve(err error) error {
	switch {
	case err == nil || p.blank:
		return nil
	case p.private:
		return fmt.Errorf("%w (PRIVATE, do not publish: this message depends on private data)", err)
	}
	return err
}

// newTable is NewTable with blank examples in place of those that have an invalid value.
func (p rowPolicy) newTable(columns []Column, values [][]float32, examples int) (Set, error) {
	blank, err := p.blankInvalid(columns, values, examples)
	if err != nil {
		return nil, err
	}
	return p.tableOf(columns, values, blank)
}

// tableOf returns the table of the examples that this process reads.
func (p rowPolicy) tableOf(columns []Column, values [][]float32, blank []bool) (Set, error) {
	if !p.shard.isWhole() {
		for k, c := range columns {
			if len(values[k]) == len(blank)*c.Size() {
				values[k] = keepShard(p.shard, values[k], c.Size())
			}
		}
	}
	table, err := NewTable(columns, values, nil)
	if err != nil {
		return nil, err
	}
	if !p.shard.isWhole() {
		return withBlank(newSharded(table, p.shard, len(blank), nil, nil), blank), nil
	}
	return withBlank(table, blank), nil
}

// blankInvalid reports the examples that have an invalid value in some column, and sets all their
// values: Pad for indices and the labels of steps, 0 for others.
func (p rowPolicy) blankInvalid(columns []Column, values [][]float32, examples int) ([]bool, error) {
	blank := make([]bool, examples)
	if !p.private {
		return blank, nil // the caller checks all values
	}
	each := func(f func(c Column, i int, example []float32) error) error {
		for k, c := range columns {
			size := c.Size()
			for i := range examples {
				if err := f(c, i, values[k][i*size:(i+1)*size]); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := each(func(c Column, i int, example []float32) error {
		if c.valid(example) {
			return nil
		}
		blank[i] = true
		return p.resolve(checkValues(c, example, i))
	})
	if err != nil {
		return nil, err
	}
	each(func(c Column, i int, example []float32) error {
		if blank[i] {
			fillBlank(c, example)
		}
		return nil
	})
	return blank, nil
}

// newPictures is NewPictures with blank examples in place of those that have an invalid label.
func (p rowPolicy) newPictures(shape ImageShape, pixels []byte, labels []int32, classes int,
	standardization []Standardization) (Set, error) {
	blank := make([]bool, len(labels))
	for i, l := range labels {
		if l >= 0 && int(l) < classes {
			continue
		}
		if err := p.resolve(fmt.Errorf("picture %d: the label is not between 0 and %d", i, classes-1)); err != nil {
			return nil, err
		}
		labels[i], blank[i] = 0, true
	}
	if len(pixels) == len(labels)*shape.size() {
		clearBlank(pixels, blank)
	}
	examples := len(labels)
	if !p.shard.isWhole() && len(pixels) == examples*shape.size() {
		pixels, labels = keepShard(p.shard, pixels, shape.size()), keepShard(p.shard, labels, 1)
	}
	pictures, err := NewPictures(shape.Channels, shape.Height, shape.Width, pixels, labels, classes, standardization)
	if err != nil {
		return nil, err
	}
	if !p.shard.isWhole() {
		return withBlank(newSharded(pictures, p.shard, examples, nil, nil), blank), nil
	}
	return withBlank(pictures, blank), nil
}

// clearBlank sets the bytes of blank examples to zero.
func clearBlank(pixels []byte, blank []bool) {
	for i, b := range blank {
		if size := len(pixels) / len(blank); b {
			clear(pixels[i*size : (i+1)*size])
		}
	}
}

// valid reports whether all values are valid.
func (c Column) valid(values []float32) bool {
	return !slices.ContainsFunc(values, func(v float32) bool { return c.problem(v) != "" })
}

// fillBlank sets the values of a blank example in a column.
func fillBlank(c Column, values []float32) {
	fill := float32(0)
	if c.padded() {
		fill = Pad
	}
	for i := range values {
		values[i] = fill
	}
}
