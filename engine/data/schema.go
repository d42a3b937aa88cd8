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

// Schema describes the columns of a table. The user gives this description, because
// computing it from private rows would cost privacy. All of it must be public knowledge:
// for example, an age is between 0 and 120 for any person. In a YAML file:
//
//	label: income
//	classes: [low, high]        # or a number n, for labels 0 to n-1
//	bounds:
//	  age: [0, 120]
//	vocabulary:
//	  sex: [Female, Male]
//	ignore: [row-id]
//	user: patient
//	weight: visits
//
// To predict a number, replace label and classes by a target, which is one of the columns
// with bounds:
//
//	target: hours
//
// For a network that reads text, replace bounds and vocabulary by:
//
//	text: review
//	tokens: bytes               # or words:FILE, or the number of indices
//	length: 200
type Schema struct {
	// Label is the name of the column with the classes.
	Label string `yaml:"label" json:"label,omitempty"`
	// Classes are the possible values of the label column, in the order of their numbers.
	Classes Classes `yaml:"classes" json:"classes,omitempty"`
	// Target is the name of the numeric column to predict instead of a label. It is scaled
	// by its bounds like a feature, and it is not a feature. For arrays it is y.
	Target string `yaml:"target" json:"target,omitempty"`
	// Bounds are the limits of numeric columns. The columns are scaled to [-1, 1]. A
	// number outside the bounds is clipped to the nearer bound first.
	Bounds map[string]Bounds `yaml:"bounds" json:"bounds,omitempty"`
	// Vocabulary lists the words of each column of words. The words become a one-hot
	// encoding. All words that are not listed share one more position.
	Vocabulary map[string][]string `yaml:"vocabulary" json:"vocabulary,omitempty"`
	// Inputs is the order of the columns that become features. If it is empty, the order is
	// that of the file, or alphabetical if the file has no order. A task's schema contains
	// the order that was used.
	Inputs []string `yaml:"inputs" json:"inputs,omitempty"`
	// Text is the name of the column that becomes an example's indices.
	Text string `yaml:"text" json:"text,omitempty"`
	// Tokens is the conversion of text to indices: "bytes"; "words", for the words of
	// Words; or a number, if the column contains indices below it, separated by spaces or
	// in a list.
	Tokens string `yaml:"tokens" json:"tokens,omitempty"`
	// Words is the vocabulary. All words that are not listed share one more index.
	Words []string `yaml:"words" json:"words,omitempty"`
	// Length is the number of indices of an example. Longer texts are cut, and shorter
	// texts are padded.
	Length int `yaml:"length" json:"length,omitempty"`
	// PredictNext trains a language model: there is no label column, and the label of each
	// step is the next index. Texts then begin and end with one more index; for bytes it is
	// that of a newline.
	PredictNext bool `yaml:"next" json:"next,omitempty"`
	// Ignore lists the columns that are not read.
	Ignore []string `yaml:"ignore" json:"ignore,omitempty"`
	// User is the name of the column with the user that a row belongs to. It is not a feature.
	User string `yaml:"user" json:"user,omitempty"`
	// Weight is the name of the column with the weight of a row in a weighted mean. It is not a
	// feature. A cell that is not a number is NaN: no error depends on it.
	Weight string `yaml:"weight" json:"weight,omitempty"`

	// Only feature columns are read. Other columns need not exist.
	featuresOnly bool
}

// SchemaExample is an example of a schema file, in one line.
const SchemaExample = "{label: income, classes: [low, high], bounds: {age: [0, 120]}, vocabulary: {sex: [Female, Male]}, ignore: [row-id]}"

// Classes are the names of classes, in order.
type Classes []string

// UnmarshalYAML reads a list of names or a number of classes.
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
		// The parser's message names Go types, so the message adds an example in YAML.
		return Schema{}, fmt.Errorf("%s; write the schema like %s", strings.Join(strings.Fields(err.Error()), " "), SchemaExample)
	}
	if s.Tokens != "" && s.Tokens != byWords {
		var err error
		if s.Tokens, s.Words, err = ParseTokens(s.Tokens); err != nil {
			return Schema{}, err
		}
	}
	return s, s.validate()
}

// ParseClasses parses the value of the flag --classes: a number of classes, for labels
// from 0, or names with commas between them.
func ParseClasses(text string) (Classes, error) {
	if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
		if n < 2 || n > maxClasses {
			return nil, fmt.Errorf("%d classes; the number must be between 2 and 2^24", n)
		}
		classes := make(Classes, n)
		for i := range classes {
			classes[i] = strconv.Itoa(i)
		}
		return classes, nil
	}
	classes := Classes(splitList(text, ","))
	if len(classes) < 2 {
		return nil, fmt.Errorf("classes %q: write a number, or at least two names with commas between them", text)
	}
	return classes, nil
}

// ParseVocabulary parses the value of the flag --vocabulary, which is the words of one
// column: COLUMN=WORD|WORD|….
func ParseVocabulary(text string) (column string, vocabulary []string, err error) {
	column, list, ok := strings.Cut(text, "=")
	column, vocabulary = strings.TrimSpace(column), splitList(list, "|")
	if !ok || column == "" || len(vocabulary) == 0 {
		return "", nil, fmt.Errorf("vocabulary %q: write COLUMN=WORD|WORD|…, such as sex=Female|Male", text)
	}
	return column, vocabulary, Schema{Vocabulary: map[string][]string{column: vocabulary}}.validate()
}

// splitList splits a list and trims its entries. It drops empty entries.
func splitList(text, separator string) []string {
	var list []string
	for w := range strings.SplitSeq(text, separator) {
		if w = strings.TrimSpace(w); w != "" {
			list = append(list, w)
		}
	}
	return list
}

// empty reports whether no field is set.
func (s Schema) empty() bool {
	return !s.named() && len(s.Classes) == 0 && !s.textual()
}

// named reports whether a field is set that is only for named columns.
func (s Schema) named() bool {
	return s.Label != "" || s.Target != "" || len(s.Bounds) > 0 || len(s.Vocabulary) > 0 || s.Text != "" || len(s.Ignore) > 0 || s.User != "" || s.Weight != ""
}

// textual reports whether a field is set that is only for text or indices.
func (s Schema) textual() bool {
	return s.Tokens != "" || len(s.Words) > 0 || s.Length != 0 || s.PredictNext
}

func (s Schema) validate() error {
	if c, twice := repeated(s.Classes); twice {
		return fmt.Errorf("the class %q is given twice", c)
	}
	for column, b := range s.Bounds {
		if !b.valid() {
			return fmt.Errorf("the bounds of column %q are %v:%v; the lower one must be less than the upper one, and both must be finite", column, b[0], b[1])
		}
	}
	for column, vocabulary := range s.Vocabulary {
		if len(vocabulary) == 0 {
			return fmt.Errorf("the vocabulary of column %q is empty; list its words", column)
		}
		if w, twice := repeated(vocabulary); twice {
			return fmt.Errorf("the vocabulary of column %q contains %q twice", column, w)
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
		return fmt.Errorf("length %d: an example needs between 1 and 2^20 indices", s.Length)
	case s.Text != "" && (len(s.withoutTarget().Bounds) > 0 || len(s.Vocabulary) > 0):
		return fmt.Errorf("column %q is text, and other columns have bounds or a vocabulary, but a network reads either indices or numbers; ignore one kind of columns", s.Text)
	case s.Target != "" && (s.Label != "" || len(s.Classes) > 0):
		return fmt.Errorf("a target, %q, and a label or classes are given, but a network predicts either a number or a class; leave one out", s.Target)
	case s.PredictNext && s.Target != "":
		return errors.New("a target and next are given, but with next the network predicts the next indices; leave one out")
	case s.PredictNext && (s.Label != "" || len(s.Classes) > 0):
		return errors.New("a label or classes and next are given, but with next the labels are the next indices; leave one out")
	}
	if c, twice := repeated(s.columns()); twice {
		return fmt.Errorf("column %q is used in two ways; it can be the label, the user, the weight, the text or ignored, or have bounds or a vocabulary", c)
	}
	return nil
}

// withoutTarget returns the schema without the target and its bounds.
func (s Schema) withoutTarget() Schema {
	s.Bounds = maps.Clone(s.Bounds)
	delete(s.Bounds, s.Target)
	s.Target = ""
	return s
}

// outputColumn describes the column to predict.
func (s Schema) outputColumn() Column {
	if s.Target != "" {
		return Column{Name: s.Target, Kind: Target, Bounds: s.Bounds[s.Target]}
	}
	return Column{Name: s.Label, Kind: Label, Classes: len(s.Classes)}
}

// columns lists every column that the schema names in alphabetical order, once for each
// use.
func (s Schema) columns() []string {
	named := slices.Compact(slices.Sorted(slices.Values(s.Ignore))) // ignoring a column twice is no error
	if s.Label != "" {
		named = append(named, s.Label)
	}
	if _, bounded := s.Bounds[s.Target]; s.Target != "" && !bounded {
		named = append(named, s.Target)
	}
	if s.User != "" {
		named = append(named, s.User)
	}
	if s.Weight != "" {
		named = append(named, s.Weight)
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
