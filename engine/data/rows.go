package data

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// exampleReader gathers the examples of a file.
type exampleReader struct {
	*rowLayout
	features, labels chunkedValues
	ends             []int // of each text's indices among the features
	users            []int32
	known            map[string]int32 // the number of each user so far
	count            int
}

// chunkedValues is a list that grows without its numbers being copied each time, which would
// take three times their memory while a file is read.
type chunkedValues struct {
	full   [][]float32
	last   []float32
	before int // numbers in the full ones
}

const partLength = 1 << 20

// cut begins a new part after a row if the last one is long enough. Rows of one width
// fill it as before.
func (p *chunkedValues) cut() {
	if len(p.last) >= partLength {
		p.full, p.before = append(p.full, p.last), p.before+len(p.last)
		p.last = make([]float32, 0, len(p.last))
	}
}

func (p *chunkedValues) joined() []float32 {
	if len(p.full) == 0 {
		return p.last
	}
	return slices.Concat(append(p.full, p.last)...)
}

// set is that of all rows.
func (r *exampleReader) set(s Schema) (Set, error) {
	if r.count == 0 {
		return nil, errors.New("has no rows")
	}
	if s.unlabelled {
		return r.unlabelled()
	}
	if r.tokens != nil {
		return newTexts(r.tokens.columns(s.answer()), r.features.joined(), r.ends, r.labels.joined(), r.users)
	}
	columns := []Column{
		{Name: "features", Kind: Feature, Shape: []int{r.width}},
		s.answer(),
	}
	return NewTable(columns, [][]float32{r.features.joined(), r.labels.joined()}, r.users)
}

// unlabelled is the set of all rows' features alone.
func (r *exampleReader) unlabelled() (Set, error) {
	if r.tokens != nil {
		return newTexts(r.tokens.columns(Column{})[:1], r.features.joined(), r.ends, nil, nil)
	}
	return NewTable([]Column{{Name: "features", Kind: Feature, Shape: []int{r.width}}}, [][]float32{r.features.joined()}, nil)
}

// add appends one row; an error belongs to the column returned.
func (r *exampleReader) add(row []string) (column int, err error) {
	r.count++
	for _, k := range r.order {
		cell := strings.TrimSpace(row[k])
		switch {
		case k == r.text:
			if r.features.last, err = r.tokens.add(r.features.last, cell); err != nil {
				return k, err
			}
			r.ends = append(r.ends, r.features.before+len(r.features.last))
		case k == r.label:
			class, ok := r.classes[cell]
			if !ok {
				return k, fmt.Errorf("the label is none of the %d classes given", len(r.classes))
			}
			r.labels.last = append(r.labels.last, float32(class))
		case k == r.target:
			v, err := r.roles[k].scaled(cell)
			if errors.Is(err, errNoNumber) {
				err = errors.New("the target is no number; of words write --label and --classes")
			}
			if err != nil {
				return k, err
			}
			r.labels.last = append(r.labels.last, v)
		case k == r.user:
			if cell == "" {
				return k, errors.New("the row has no user")
			}
			number, ok := r.known[cell]
			if !ok {
				number = int32(len(r.known))
				r.known[strings.Clone(cell)] = number
			}
			r.users = append(r.users, number)
		case r.roles[k].ignore:
		default:
			if r.features.last, err = r.roles[k].encode(r.features.last, cell); err != nil {
				return k, err
			}
		}
	}
	r.features.cut()
	r.labels.cut()
	return 0, nil
}

// encode appends what a cell turns into.
func (r columnRole) encode(features []float32, cell string) ([]float32, error) {
	if r.slots != nil {
		slot, ok := r.slots[cell]
		if !ok {
			slot = len(r.slots)
		}
		for i := range len(r.slots) + 1 {
			if i == slot {
				features = append(features, 1)
			} else {
				features = append(features, 0)
			}
		}
		return features, nil
	}
	v, err := r.scaled(cell)
	return append(features, v), err
}

var errNoNumber = errors.New("not a number; for words write a vocabulary instead of bounds")

// scaled is the number in a cell, scaled by the column's bounds.
func (r columnRole) scaled(cell string) (float32, error) {
	if cell == "" {
		return 0, errors.New("the cell is empty; fill it or drop the row")
	}
	v, err := strconv.ParseFloat(cell, 64)
	if (err != nil && !errors.Is(err, strconv.ErrRange)) || math.IsNaN(v) {
		return 0, errNoNumber
	}
	return r.bounds.Scale(v), nil
}
