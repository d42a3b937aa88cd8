package data

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Schema is what a reader must be told about a table, because learning it from
// private rows would cost privacy. All of it must be public knowledge: an age
// lies between 0 and 120 whoever is in the table. In a YAML file:
//
//	label: income
//	classes: [low, high]        # or a count: labels 0 to count-1
//	bounds:
//	  age: [0, 120]
//	vocabulary:
//	  sex: [Female, Male]
//	ignore: [row-id]
//	user: patient
//
// or, where a number is to be predicted, in place of label and classes a target, which is
// one of the columns with bounds:
//
//	target: hours
//
// or, where a network reads text, in place of bounds and vocabulary:
//
//	text: review
//	tokens: bytes               # or words:FILE, or a count of indices
//	length: 200
type Schema struct {
	// Label names the column of the classes.
	Label string `yaml:"label" json:"label,omitempty"`
	// Classes are what the label column may say, in the order of their numbers.
	Classes Classes `yaml:"classes" json:"classes,omitempty"`
	// Target names the numeric column that is predicted, in place of a label. It is scaled
	// by its bounds as features are, and no feature; arrays have one column, y.
	Target string `yaml:"target" json:"target,omitempty"`
	// Bounds gives numeric columns their limits. They are scaled to [-1, 1], and
	// a number beyond a limit counts as the limit.
	Bounds map[string]Bounds `yaml:"bounds" json:"bounds,omitempty"`
	// Vocabulary gives columns of words their words. Each becomes a 1 among
	// zeros, in a slot of its own; all words not listed share one more slot.
	Vocabulary map[string][]string `yaml:"vocabulary" json:"vocabulary,omitempty"`
	// Inputs orders the columns that become features. Where it is empty they stand as
	// in the file, or by name where that has no order; a task's schema says how.
	Inputs []string `yaml:"inputs" json:"inputs,omitempty"`
	// Text names the column that becomes an example's indices.
	Text string `yaml:"text" json:"text,omitempty"`
	// Tokens says how: "bytes"; "words", those of Words; or a count, where the
	// column holds indices below it, separated by spaces or in a list.
	Tokens string `yaml:"tokens" json:"tokens,omitempty"`
	// Words is the vocabulary; all words not listed share one more index.
	Words []string `yaml:"words" json:"words,omitempty"`
	// Length is how many indices an example has: longer texts are cut, shorter
	// ones padded.
	Length int `yaml:"length" json:"length,omitempty"`
	// PredictNext has no label column: the label of each step is the index that follows.
	// Texts then begin and end with one more index, by bytes that of a newline.
	PredictNext bool `yaml:"next" json:"next,omitempty"`
	// Ignore lists columns that are not read.
	Ignore []string `yaml:"ignore" json:"ignore,omitempty"`
	// User names the column that says whose a row is; it is no feature.
	User string `yaml:"user" json:"user,omitempty"`

	// Columns that are no features need not be there, and are not read.
	unlabelled bool
}

// SchemaExample is a schema as a file has it, in one line.
const SchemaExample = "{label: income, classes: [low, high], bounds: {age: [0, 120]}, vocabulary: {sex: [Female, Male]}, ignore: [row-id]}"

// Classes are the names of classes, in order.
type Classes []string

// UnmarshalYAML reads a list of names or a count.
func (c *Classes) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		classes, err := ParseClasses(node.Value)
		*c = classes
		return err
	}
	return node.Decode((*[]string)(c))
}

// ReadSchema reads a schema from a YAML (or JSON) file.
func ReadSchema(file string) (Schema, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Schema{}, fmt.Errorf("cannot read the schema %s: %w", file, withoutPath(err))
	}
	s, err := parseSchema(text)
	if err != nil {
		return Schema{}, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

func parseSchema(text []byte) (Schema, error) {
	var s Schema
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		// The parser's words name types of Go, which nobody can write.
		return Schema{}, fmt.Errorf("%s; write it as in %s", strings.Join(strings.Fields(err.Error()), " "), SchemaExample)
	}
	if s.Tokens != "" && s.Tokens != byWords {
		var err error
		if s.Tokens, s.Words, err = ParseTokens(s.Tokens); err != nil {
			return Schema{}, err
		}
	}
	return s, s.validate()
}

// ParseClasses reads classes as a flag gives them: a count, for labels 0 to
// count-1, or names with commas between.
func ParseClasses(text string) (Classes, error) {
	if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
		if n < 2 || n > maxClasses {
			return nil, fmt.Errorf("%d classes; between 2 and 2^24 can be told apart", n)
		}
		classes := make(Classes, n)
		for i := range classes {
			classes[i] = strconv.Itoa(i)
		}
		return classes, nil
	}
	classes := Classes(words(text, ","))
	if len(classes) < 2 {
		return nil, fmt.Errorf("classes %q: write a count, or at least two names with commas between", text)
	}
	return classes, nil
}

// ParseVocabulary reads one column's words as a flag gives them:
// COLUMN=WORD|WORD|….
func ParseVocabulary(text string) (column string, vocabulary []string, err error) {
	column, list, ok := strings.Cut(text, "=")
	column, vocabulary = strings.TrimSpace(column), words(list, "|")
	if !ok || column == "" || len(vocabulary) == 0 {
		return "", nil, fmt.Errorf("vocabulary %q: write COLUMN=WORD|WORD|…, such as sex=Female|Male", text)
	}
	return column, vocabulary, Schema{Vocabulary: map[string][]string{column: vocabulary}}.validate()
}

// words splits and trims; it drops empty words.
func words(text, separator string) []string {
	var list []string
	for w := range strings.SplitSeq(text, separator) {
		if w = strings.TrimSpace(w); w != "" {
			list = append(list, w)
		}
	}
	return list
}

// empty reports whether nothing has been said.
func (s Schema) empty() bool {
	return !s.named() && len(s.Classes) == 0 && !s.textual()
}

// named reports whether something was said that only named columns have a use for.
func (s Schema) named() bool {
	return s.Label != "" || s.Target != "" || len(s.Bounds) > 0 || len(s.Vocabulary) > 0 || s.Text != "" || len(s.Ignore) > 0 || s.User != ""
}

// textual reports whether something was said of how indices are made.
func (s Schema) textual() bool {
	return s.Tokens != "" || len(s.Words) > 0 || s.Length != 0 || s.PredictNext
}

func (s Schema) validate() error {
	if c, twice := repeated(s.Classes); twice {
		return fmt.Errorf("class %q is given twice", c)
	}
	for column, b := range s.Bounds {
		if !b.proper() {
			return fmt.Errorf("the bounds of column %q are %v:%v; the low one must be below the high one, both finite", column, b[0], b[1])
		}
	}
	for column, vocabulary := range s.Vocabulary {
		if len(vocabulary) == 0 {
			return fmt.Errorf("the vocabulary of column %q is empty; list its words", column)
		}
		if w, twice := repeated(vocabulary); twice {
			return fmt.Errorf("the vocabulary of column %q has %q twice", column, w)
		}
	}
	if s.Tokens != "" || len(s.Words) > 0 {
		if err := checkTokens(s.Tokens, s.Words); err != nil {
			return err
		}
	}
	const longest = 1 << 20
	switch {
	case s.Length < 0 || s.Length > longest:
		return fmt.Errorf("length %d: an example has between 1 and 2^20 indices", s.Length)
	case s.Text != "" && (len(s.withoutTarget().Bounds) > 0 || len(s.Vocabulary) > 0):
		return fmt.Errorf("column %q is text, and others have bounds or a vocabulary: a network reads indices or numbers; ignore one kind", s.Text)
	case s.Target != "" && (s.Label != "" || len(s.Classes) > 0):
		return fmt.Errorf("a target, %q, and a label or classes were given: a network predicts a number or a class; leave one out", s.Target)
	case s.PredictNext && s.Target != "":
		return errors.New("a target was given, and that each step predicts the next: what is predicted are the indices that follow; leave one out")
	case s.PredictNext && (s.Label != "" || len(s.Classes) > 0):
		return errors.New("a label or classes were given, and that each step predicts the next: the labels are the indices that follow; leave one out")
	}
	if c, twice := repeated(s.columns()); twice {
		return fmt.Errorf("column %q is given two roles; it can be the label, the user, the text, ignored, or have bounds or a vocabulary", c)
	}
	return nil
}

// withoutTarget is the schema of what the target is predicted from.
func (s Schema) withoutTarget() Schema {
	s.Bounds = maps.Clone(s.Bounds)
	delete(s.Bounds, s.Target)
	s.Target = ""
	return s
}

// answer is the column of what is predicted.
func (s Schema) answer() Column {
	if s.Target != "" {
		return Column{Name: s.Target, Kind: Target, Bounds: s.Bounds[s.Target]}
	}
	return Column{Name: s.Label, Kind: Label, Classes: len(s.Classes)}
}

// columns lists every column that the schema names, in the order of the
// alphabet, once for each role.
func (s Schema) columns() []string {
	named := slices.Compact(slices.Sorted(slices.Values(s.Ignore))) // ignored twice is ignored
	if s.Label != "" {
		named = append(named, s.Label)
	}
	if _, bounded := s.Bounds[s.Target]; s.Target != "" && !bounded {
		named = append(named, s.Target)
	}
	if s.User != "" {
		named = append(named, s.User)
	}
	if s.Text != "" {
		named = append(named, s.Text)
	}
	for c := range s.Bounds {
		named = append(named, c)
	}
	for c := range s.Vocabulary {
		named = append(named, c)
	}
	slices.Sort(named)
	return named
}

func repeated(list []string) (string, bool) {
	seen := make(map[string]bool, len(list))
	for _, w := range list {
		if seen[w] {
			return w, true
		}
		seen[w] = true
	}
	return "", false
}
