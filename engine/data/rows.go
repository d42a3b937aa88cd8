package data

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// role is what one column of the file turns into.
type role struct {
	name   string
	bounds Bounds
	slots  map[string]int // of a word's 1; nil for a numeric column
	ignore bool
}

// layout is how a row becomes an example.
type layout struct {
	roles             []role
	order             []int // the columns as they are read: features of one kind of row stand in one order
	label, user, text int   // columns; -1 where there is none
	classes           map[string]int
	tokens            *tokenizer // of the text
	inputs            []string   // the columns that the features come from
	width             int        // features of one example
}

// rows gathers the examples of a file.
type rows struct {
	*layout
	features, labels parts
	ends             []int // of each text's indices among the features
	users            []int32
	known            map[string]int32 // the number of each user so far
	count            int
}

// parts is a list that grows without its numbers being copied each time, which would
// take three times their memory while a file is read.
type parts struct {
	full   [][]float32
	last   []float32
	before int // numbers in the full ones
}

const partLength = 1 << 20

// cut begins a new part after a row if the last one is long enough. Rows of one width
// fill it as before.
func (p *parts) cut() {
	if len(p.last) >= partLength {
		p.full, p.before = append(p.full, p.last), p.before+len(p.last)
		p.last = make([]float32, 0, len(p.last))
	}
}

func (p *parts) joined() []float32 {
	if len(p.full) == 0 {
		return p.last
	}
	return slices.Concat(append(p.full, p.last)...)
}

// set is that of all rows.
func (r *rows) set(s Schema) (Set, error) {
	if r.count == 0 {
		return nil, errors.New("has no rows")
	}
	if r.tokens != nil {
		return newTexts(r.tokens.columns(s.Label, len(s.Classes)), r.features.joined(), r.ends, r.labels.joined(), r.users)
	}
	columns := []Column{
		{Name: "features", Kind: Feature, Shape: []int{r.width}},
		{Name: s.Label, Kind: Label, Classes: len(s.Classes)},
	}
	return NewTable(columns, [][]float32{r.features.joined(), r.labels.joined()}, r.users)
}

// add appends one row; an error belongs to the column returned.
func (r *rows) add(row []string) (column int, err error) {
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
func (r role) encode(features []float32, cell string) ([]float32, error) {
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
	if cell == "" {
		return nil, errors.New("the cell is empty; fill it or drop the row")
	}
	v, err := strconv.ParseFloat(cell, 64)
	if (err != nil && !errors.Is(err, strconv.ErrRange)) || math.IsNaN(v) {
		return nil, errors.New("not a number; for words write a vocabulary instead of bounds")
	}
	low, high := r.bounds[0], r.bounds[1]
	v = min(max(v, low), high)
	return append(features, float32(2*((v-low)/(high-low))-1)), nil
}

// newLayout matches a header with the schema. It cites the header only once the
// label column, or that of the text, was found in it: the first line of a file
// without one is a row.
func newLayout(header []string, s Schema) (*layout, error) {
	names := make([]string, len(header))
	for k, name := range header {
		names[k] = strings.TrimSpace(name)
	}
	if s.Label == "" && !s.Next {
		return nil, errors.New("no label column was named; write --label with a name of the first line")
	}
	if s.Next && s.Text == "" {
		return nil, errors.New("no column of text was named; write --text with a name of the first line")
	}
	for role, name := range map[string]string{"label": s.Label, "text": s.Text} {
		if name != "" && !slices.Contains(names, name) {
			return nil, fmt.Errorf("the first line, which must name the columns, has no %s %q%s", role, name, meant(name, names))
		}
	}
	if name, twice := repeated(names); twice {
		return nil, fmt.Errorf("the header names column %q twice", name)
	}
	for _, c := range s.columns() {
		if !slices.Contains(names, c) {
			return nil, fmt.Errorf("the header has no column %q%s", c, meant(c, names))
		}
	}
	if len(s.Classes) < 2 && !s.Next {
		return nil, fmt.Errorf("the classes of label column %q were not given; write --classes with their public names (A,B,…) or their count", s.Label)
	}
	if k := slices.Index(names, ""); k >= 0 && !slices.Contains(s.Ignore, "") {
		return nil, fmt.Errorf("the first line gives column %d no name; give it one, or leave it out with --ignore '\"\"'", k+1)
	}
	at := func(name string) int {
		if name == "" {
			return -1
		}
		return slices.Index(names, name)
	}
	l := &layout{label: at(s.Label), user: at(s.User), text: at(s.Text), classes: indexed(s.Classes)}
	if s.Text != "" {
		var err error
		if l.tokens, err = s.tokenizer(); err != nil {
			return nil, err
		}
		l.inputs, l.width = []string{s.Text}, s.Length
	} else if s.textual() {
		return nil, errors.New("tokens, length or next say how text is read, and no column of text was named; write --text with its name")
	}
	var unknown []string
	for k, name := range names {
		r := role{name: name, ignore: slices.Contains(s.Ignore, name)}
		bounds, numeric := s.Bounds[name]
		vocabulary, word := s.Vocabulary[name]
		switch {
		case numeric:
			r.bounds = bounds
			l.width++
		case word:
			r.slots = indexed(vocabulary)
			l.width += len(vocabulary) + 1
		case k != l.label && k != l.user && k != l.text && !r.ignore:
			unknown = append(unknown, name)
		}
		if numeric || word {
			l.inputs = append(l.inputs, name)
		}
		l.roles = append(l.roles, r)
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("nothing public is known about %s; write --bounds %s=LOW:HIGH for numbers, --vocabulary %[2]s=WORD|WORD for words, --text %[2]s for text, or --ignore %[2]s, and take the limits and words from public knowledge, not from these rows", some(unknown), unknown[0])
	}
	if err := l.arrange(s.Inputs); err != nil {
		return nil, err
	}
	if l.width == 0 {
		return nil, errors.New("no column is left to learn from; give at least one bounds or a vocabulary, or name one of text")
	}
	return l, nil
}

func indexed(list []string) map[string]int {
	at := make(map[string]int, len(list))
	for i, w := range list {
		at[w] = i
	}
	return at
}

// some lists names, of many the first ones.
func some(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// arrange says in which order columns are read: that of the file, or the inputs as
// they are listed.
func (l *layout) arrange(inputs []string) error {
	for k := range l.roles {
		l.order = append(l.order, k)
	}
	if len(inputs) == 0 {
		return nil
	}
	if got, want := slices.Sorted(slices.Values(l.inputs)), slices.Sorted(slices.Values(inputs)); !slices.Equal(got, want) {
		return fmt.Errorf("its inputs are to be %s, and bounds, vocabulary and text name %s", some(inputs), some(l.inputs))
	}
	place := func(k int) int { return slices.Index(inputs, l.roles[k].name) }
	slices.SortStableFunc(l.order, func(a, b int) int { return cmp.Compare(place(a), place(b)) })
	l.inputs = inputs
	return nil
}
