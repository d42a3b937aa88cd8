package data

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/internal/nearest"
)

// columnRole describes how one column of the file is used.
type columnRole struct {
	name   string
	bounds Bounds
	slots  map[string]int // the position of each word in a one-hot encoding; nil for a numeric column
	ignore bool
}

// rowLayout describes how a row becomes an example.
type rowLayout struct {
	roles             []columnRole
	order             []int // the columns in reading order, which determines the order of the features
	label, user, text int   // columns; -1 if there is none
	target            int   // a column with bounds; -1 if there is none
	weight            int   // -1 if there is none
	classes           map[string]int
	tokens            *tokenizer // for the text column
	inputs            []string   // names of the columns that the features come from
	width             int        // number of features of one example
}

// checkNames compares a header with the schema. An error names columns of the header only
// after the label column, the target or the text column was found in it: if a file has no
// header, its first line is a row of private values.
func checkNames(names []string, s Schema) error {
	if s.featuresOnly {
		return checkFeatures(names, s)
	}
	if s.Label == "" && s.Target == "" && !s.PredictNext {
		return errors.New("the label column is not given; write --label with its name in the first line, or --target with the name of a numeric column to predict")
	}
	if s.PredictNext && s.Text == "" {
		return errors.New("the text column is not given; write --text with its name in the first line")
	}
	for role, name := range map[string]string{"label": s.Label, "target": s.Target, "text": s.Text} {
		if name != "" && !slices.Contains(names, name) {
			return missingColumn(names, role, name)
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
		return fmt.Errorf("the bounds of target column %q are not given; write --bounds %[1]s=LOW:HIGH, with limits from public knowledge and not from these rows", s.Target)
	}
	if len(s.Classes) < 2 && s.Target == "" && !s.PredictNext {
		return fmt.Errorf("the classes of label column %q are not given; write --classes with their public names (A,B,…) or their number", s.Label)
	}
	if k := slices.Index(names, ""); k >= 0 && !slices.Contains(s.Ignore, "") {
		return fmt.Errorf("column %d has no name in the first line; name it, or drop it with --ignore '\"\"'", k+1)
	}
	return nil
}

// checkFeatures checks that a header has all feature columns. Its errors do not show the
// header's names.
func checkFeatures(names []string, s Schema) error {
	for _, c := range s.columns() {
		if !slices.Contains(names, c) {
			return missingColumn(names, "column", c)
		}
		if first := slices.Index(names, c); slices.Contains(names[first+1:], c) {
			return fmt.Errorf("the first line names column %q twice", c)
		}
	}
	return nil
}

// missingColumn reports a column that the first line does not name, and the position of a
// column with a similar name.
func missingColumn(names []string, role, name string) error {
	hint := ""
	if near := nearest.LikelyTypo(name, names); near != "" {
		hint = fmt.Sprintf("; did you mean the name of column %d?", slices.Index(names, near)+1)
	}
	return fmt.Errorf("the first line must name the columns, and it has no %s %q%s", role, name, hint)
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
	columnOf := func(name string) int {
		if name == "" {
			return -1
		}
		return slices.Index(names, name)
	}
	l := &rowLayout{label: columnOf(s.Label), user: columnOf(s.User), text: columnOf(s.Text), target: columnOf(s.Target), weight: columnOf(s.Weight), classes: indexOf(s.Classes)}
	if s.Text != "" {
		var err error
		if l.tokens, err = s.tokenizer(); err != nil {
			return nil, err
		}
		l.inputs, l.width = []string{s.Text}, s.Length
	} else if s.textual() {
		return nil, errors.New("tokens, length and next describe a text column, and none is given; write --text with its name")
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
		case k != l.label && k != l.user && k != l.weight && k != l.text && !r.ignore:
			r.ignore = true
			if !s.featuresOnly {
				unknown = append(unknown, name)
			}
		}
		if (numeric || word) && k != l.target {
			l.inputs = append(l.inputs, name)
		}
		l.roles = append(l.roles, r)
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("the schema does not describe %s; write --bounds %s=LOW:HIGH for numbers, --vocabulary %[2]s=WORD|WORD for words, --text %[2]s for text, or --ignore %[2]s. Take bounds and words from public knowledge and not from these rows", abbreviated(unknown), unknown[0])
	}
	if err := l.orderColumns(s.Inputs); err != nil {
		return nil, err
	}
	if l.width == 0 {
		return nil, errors.New("there are no features; give at least one column bounds or a vocabulary, or name a text column")
	}
	return l, nil
}

// orderColumns determines the reading order of the columns: that of inputs if it is not
// empty, otherwise that of the file.
func (l *rowLayout) orderColumns(inputs []string) error {
	for k := range l.roles {
		l.order = append(l.order, k)
	}
	if len(inputs) == 0 {
		return nil
	}
	if got, want := slices.Sorted(slices.Values(l.inputs)), slices.Sorted(slices.Values(inputs)); !slices.Equal(got, want) {
		return fmt.Errorf("the schema lists the inputs %s, but its bounds, vocabulary and text name %s", abbreviated(inputs), abbreviated(l.inputs))
	}
	position := func(k int) int { return slices.Index(inputs, l.roles[k].name) }
	slices.SortStableFunc(l.order, func(a, b int) int { return cmp.Compare(position(a), position(b)) })
	l.inputs = inputs
	return nil
}

// FeatureNames returns a name for each feature of an example, in order, for a task's schema of columns
// of numbers and words; nil for text and for arrays. A column of numbers is one feature. A column of
// words has one for each word and one for all other words.
func (s Schema) FeatureNames() (names []string) {
	if s.Text != "" {
		return nil
	}
	for _, column := range s.Inputs {
		vocabulary, isWord := s.Vocabulary[column]
		if !isWord {
			names = append(names, column)
			continue
		}
		for _, word := range vocabulary {
			names = append(names, column+" = "+word)
		}
		names = append(names, column+" = another word")
	}
	return names
}

// indexOf maps each string to its index.
func indexOf(list []string) map[string]int {
	index := make(map[string]int, len(list))
	for i, w := range list {
		index[w] = i
	}
	return index
}

// abbreviated joins names with commas. Of a long list it shows the first ones.
func abbreviated(names []string) string {
	const maxShown = 10
	if len(names) <= maxShown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxShown], ", "), len(names)-maxShown)
}

// suggestion returns a hint at the known name that is most similar to a wrong name, or ""
// if none is similar.
func suggestion(name string, known []string) string {
	best := nearest.LikelyTypo(name, known)
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}
