package data

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/internal/nearest"
	"github.com/dptrain/dptrain/internal/setting"
)

// columnRole describes how one column of the file is used.
type columnRole struct {
	InputColumn
	ignore bool
}

// rowLayout describes how a row becomes an example.
type rowLayout struct {
	roles             []columnRole
	order             []int // the columns in reading order, which determines the order of the features
	label, user, text int   // columns; -1 if there is none
	pair              int   // the column of the second text; -1 without one
	target            int   // a column with bounds; -1 if there is none
	weight            int   // -1 if there is none
	classes           map[string]int
	tokens            *tokenizer   // for the text column
	template          *RowTemplate // of the text; nil if it is a column
	inputs            []string     // names of the columns that the features come from
	width             int          // number of features of one example
	statesPerRow      int          // 0 unless the schema asks for the states of cells
}

// readsIndices reports whether an example is a list of indices.
func (l *rowLayout) readsIndices() bool { return l.tokens != nil && l.tokens.vectors == nil }

// checkNames compares a header with the schema. An error names columns of the header only
// after the label column, the target or the text column was found in it: if a file has no
// header, its first line is a row of private values.
func checkNames(names []string, s Schema) error {
	if s.featuresOnly {
		return checkFeatures(names, s)
	}
	if s.Label == "" && s.Target == "" && !s.labelsItself() {
		return setting.Errorf("label", "the label column is not given; write %v with its name in the first line, or %v with the name of a numeric column to predict",
			setting.Named("label"), setting.Named("target"))
	}
	if s.labelsItself() && s.Text == "" {
		return setting.Errorf("text", "the text column is not given; write %v with its name in the first line", setting.Named("text"))
	}
	for role, name := range map[string]string{"label": s.Label, "target": s.Target, "text": s.Text, "second text": s.TextPair} {
		if name != "" && name != rowText && !slices.Contains(names, name) {
			return missingColumn(names, role, name)
		}
	}
	position := indexOf(names)
	for _, c := range s.columns() {
		if _, found := position[c]; !found {
			return fmt.Errorf("the header has no column %q%s", c, suggestion(c, names))
		}
	}
	if _, bounded := s.Bounds[s.Target]; s.Target != "" && !bounded {
		return setting.Errorf("bounds", "the bounds of target column %q are not given; write %v, with limits from public knowledge and not from these rows",
			s.Target, setting.With("bounds", s.Target+"=LOW:HIGH"))
	}
	if len(s.Classes) < 2 && s.Target == "" && !s.labelsItself() {
		return setting.Errorf("classes", "the classes of label column %q are not given; write %v with their public names (A,B,…) or their number", s.Label, setting.Named("classes"))
	}
	if k := slices.Index(names, ""); k >= 0 && !slices.Contains(s.Ignore, "") && !slices.Contains(s.Ignore, allColumns) {
		return setting.Errorf("ignore", "column %d has no name in the first line; name it, or drop it with %v", k+1, setting.With("ignore", `'""'`))
	}
	return nil
}

// checkFeatures checks that a header has all feature columns. Its errors do not show the
// header's names.
func checkFeatures(names []string, s Schema) error {
	position := indexOf(names)
	for _, c := range s.columns() {
		if _, found := position[c]; !found {
			return missingColumn(names, "column", c)
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

// uniqueNames returns names without the spaces at their ends. The second column with the name x
// becomes x.2, the third x.3.
func uniqueNames(header []string) []string {
	names, used, count := make([]string, len(header)), map[string]bool{}, map[string]int{}
	for k, name := range header {
		names[k] = strings.TrimSpace(name)
		used[names[k]] = true
	}
	for k, name := range names {
		if count[name]++; name == "" || count[name] == 1 {
			continue
		}
		for n := count[name]; ; n++ {
			if other := fmt.Sprintf("%s.%d", name, n); !used[other] {
				names[k], used[other], count[name] = other, true, n
				break
			}
		}
	}
	return names
}

// newLayout matches a header with the schema.
func newLayout(header []string, s Schema) (*rowLayout, error) {
	names := uniqueNames(header)
	if err := checkNames(names, s); err != nil {
		return nil, err
	}
	columnOf := func(name string) int {
		if name == "" {
			return -1
		}
		return slices.Index(names, name)
	}
	l := &rowLayout{label: columnOf(s.Label), user: columnOf(s.User), text: columnOf(s.Text), pair: columnOf(s.TextPair),
		target: columnOf(s.Target), weight: columnOf(s.Weight), classes: indexOf(s.Classes)}
	if s.Text != "" {
		var err error
		if l.tokens, err = s.tokenizer(); err != nil {
			return nil, err
		}
		if l.width = l.tokens.length; !s.writesRows() {
			l.inputs = []string{s.Text}
		}
		if s.TextPair != "" {
			l.inputs = append(l.inputs, s.TextPair)
		}
	} else if s.textual() {
		return nil, setting.Errorf("text", "tokens, length and next describe a text column, and none is given; write %v with its name", setting.Named("text"))
	}
	var unknown []string
	ignored := indexOf(s.Ignore)
	_, ignoresOthers := ignored[allColumns]
	for k, name := range names {
		c, described := s.inputColumn(name)
		r := columnRole{InputColumn: c}
		_, r.ignore = ignored[name]
		switch {
		case described && k != l.target:
			if l.tokens == nil {
				l.width += c.Width()
			}
			l.inputs = append(l.inputs, name)
		case !described && k != l.label && k != l.user && k != l.weight && k != l.text && k != l.pair && !r.ignore:
			r.ignore = true
			if !s.featuresOnly && !ignoresOthers {
				unknown = append(unknown, name)
			}
		}
		l.roles = append(l.roles, r)
	}
	if len(unknown) > 0 {
		return nil, setting.Errorf("bounds", "the schema does not describe %s; write %v for numbers, %v for words, %v for text, or %v (%v for all others). Take bounds and words from public knowledge and not from these rows",
			abbreviated(unknown), setting.With("bounds", unknown[0]+"=LOW:HIGH"), setting.With("vocabulary", unknown[0]+"=WORD|WORD"),
			setting.With("text", unknown[0]), setting.With("ignore", unknown[0]), setting.With("ignore", "'*'"))
	}
	if err := l.orderColumns(s.Inputs); err != nil {
		return nil, err
	}
	if s.writesRows() {
		var err error
		if l.template, err = newRowTemplate(s, l.inputs); err != nil {
			return nil, err
		}
	}
	if s.cellStates && s.Text == "" {
		l.statesPerRow = len(l.inputs)
		if l.target >= 0 {
			l.statesPerRow++
		}
	}
	if l.width == 0 || s.writesRows() && len(l.inputs) == 0 {
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
	position := indexOf(inputs)
	at := func(k int) int {
		if i, isInput := position[l.roles[k].Name]; isInput {
			return i
		}
		return -1
	}
	slices.SortStableFunc(l.order, func(a, b int) int { return cmp.Compare(at(a), at(b)) })
	l.inputs = inputs
	return nil
}

// isInput reports whether a column becomes features.
func (l *rowLayout) isInput(k int) bool {
	return !slices.Contains([]int{l.label, l.user, l.text, l.pair, l.target, l.weight}, k) && !l.roles[k].ignore
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
