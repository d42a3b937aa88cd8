package data

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/internal/nearest"
)

// columnRole is what one column of the file turns into.
type columnRole struct {
	name   string
	bounds Bounds
	slots  map[string]int // of a word's 1; nil for a numeric column
	ignore bool
}

// rowLayout is how a row becomes an example.
type rowLayout struct {
	roles             []columnRole
	order             []int // the columns as they are read: features of one kind of row stand in one order
	label, user, text int   // columns; -1 where there is none
	target            int   // as these; it has bounds
	classes           map[string]int
	tokens            *tokenizer // of the text
	inputs            []string   // the columns that the features come from
	width             int        // features of one example
}

// checkNames finds what a header and the schema lack of each other. It cites the header
// only once the label column, or that of the text, was found in it: the first line of a
// file without one is a row.
func checkNames(names []string, s Schema) error {
	if s.unlabelled {
		return checkFeatures(names, s)
	}
	if s.Label == "" && s.Target == "" && !s.PredictNext {
		return errors.New("no label column was named; write --label with a name of the first line, or --target with that of a number to predict")
	}
	if s.PredictNext && s.Text == "" {
		return errors.New("no column of text was named; write --text with a name of the first line")
	}
	for role, name := range map[string]string{"label": s.Label, "target": s.Target, "text": s.Text} {
		if name != "" && !slices.Contains(names, name) {
			return notNamed(names, role, name)
		}
	}
	if name, twice := repeated(names); twice {
		return fmt.Errorf("the header names column %q twice", name)
	}
	for _, c := range s.columns() {
		if !slices.Contains(names, c) {
			return fmt.Errorf("the header has no column %q%s", c, suggestion(c, names))
		}
	}
	if _, bounded := s.Bounds[s.Target]; s.Target != "" && !bounded {
		return fmt.Errorf("the limits of target column %q were not given; write --bounds %[1]s=LOW:HIGH, and take them from public knowledge, not from these rows", s.Target)
	}
	if len(s.Classes) < 2 && s.Target == "" && !s.PredictNext {
		return fmt.Errorf("the classes of label column %q were not given; write --classes with their public names (A,B,…) or their count", s.Label)
	}
	if k := slices.Index(names, ""); k >= 0 && !slices.Contains(s.Ignore, "") {
		return fmt.Errorf("the first line gives column %d no name; give it one, or leave it out with --ignore '\"\"'", k+1)
	}
	return nil
}

// checkFeatures finds the columns of features in a header, and cites nothing of it.
func checkFeatures(names []string, s Schema) error {
	for _, c := range s.columns() {
		if !slices.Contains(names, c) {
			return notNamed(names, "column", c)
		}
		if first := slices.Index(names, c); slices.Contains(names[first+1:], c) {
			return fmt.Errorf("the first line names column %q twice", c)
		}
	}
	return nil
}

// notNamed says which column a first line lacks, and where there is one of almost its name.
func notNamed(names []string, role, name string) error {
	hint := ""
	if near := nearest.LikelyTypo(name, names); near != "" {
		hint = fmt.Sprintf("; did you mean what it says in column %d?", slices.Index(names, near)+1)
	}
	return fmt.Errorf("the first line, which must name the columns, has no %s %q%s", role, name, hint)
}

// newLayout matches a header with the schema.
func newLayout(header []string, s Schema) (*rowLayout, error) {
	names := make([]string, len(header))
	for k, name := range header {
		names[k] = strings.TrimSpace(name)
	}
	if err := checkNames(names, s); err != nil {
		return nil, err
	}
	at := func(name string) int {
		if name == "" {
			return -1
		}
		return slices.Index(names, name)
	}
	l := &rowLayout{label: at(s.Label), user: at(s.User), text: at(s.Text), target: at(s.Target), classes: indexOf(s.Classes)}
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
		r := columnRole{name: name, ignore: slices.Contains(s.Ignore, name)}
		bounds, numeric := s.Bounds[name]
		vocabulary, word := s.Vocabulary[name]
		switch {
		case numeric:
			r.bounds = bounds
			if k != l.target {
				l.width++
			}
		case word:
			r.slots = indexOf(vocabulary)
			l.width += len(vocabulary) + 1
		case k != l.label && k != l.user && k != l.text && !r.ignore:
			r.ignore = true
			if !s.unlabelled {
				unknown = append(unknown, name)
			}
		}
		if (numeric || word) && k != l.target {
			l.inputs = append(l.inputs, name)
		}
		l.roles = append(l.roles, r)
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("nothing public is known about %s; write --bounds %s=LOW:HIGH for numbers, --vocabulary %[2]s=WORD|WORD for words, --text %[2]s for text, or --ignore %[2]s, and take the limits and words from public knowledge, not from these rows", abbreviated(unknown), unknown[0])
	}
	if err := l.arrange(s.Inputs); err != nil {
		return nil, err
	}
	if l.width == 0 {
		return nil, errors.New("no column is left to learn from; give at least one bounds or a vocabulary, or name one of text")
	}
	return l, nil
}

// arrange says in which order columns are read: that of the file, or the inputs as
// they are listed.
func (l *rowLayout) arrange(inputs []string) error {
	for k := range l.roles {
		l.order = append(l.order, k)
	}
	if len(inputs) == 0 {
		return nil
	}
	if got, want := slices.Sorted(slices.Values(l.inputs)), slices.Sorted(slices.Values(inputs)); !slices.Equal(got, want) {
		return fmt.Errorf("its inputs are to be %s, and bounds, vocabulary and text name %s", abbreviated(inputs), abbreviated(l.inputs))
	}
	place := func(k int) int { return slices.Index(inputs, l.roles[k].name) }
	slices.SortStableFunc(l.order, func(a, b int) int { return cmp.Compare(place(a), place(b)) })
	l.inputs = inputs
	return nil
}

func indexOf(list []string) map[string]int {
	at := make(map[string]int, len(list))
	for i, w := range list {
		at[w] = i
	}
	return at
}

// abbreviated lists names, of many the first ones.
func abbreviated(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
