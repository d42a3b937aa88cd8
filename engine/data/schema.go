package data

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dptrain/dptrain/internal/setting"
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
//	tokens: bytes               # or words:FILE, ngrams, or the number of indices
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
	// Dates are the first and the last date of columns of dates. Each becomes a number from -1
	// to 1, the month and the day of the week.
	Dates map[string]DateBounds `yaml:"dates" json:"dates,omitempty"`
	// DateFormat is the format of dates, such as DD.MM.YYYY; empty for ISO 8601.
	DateFormat string `yaml:"date-format" json:"date_format,omitempty"`
	// Scale is the function by which a column of numbers is scaled, by column.
	Scale map[string]Scale `yaml:"scale" json:"scale,omitempty"`
	// Missing is the encoding of cells without a value, by column; * stands for all others.
	// Without an entry, numbers and dates are MissingMiddle and words MissingWord. A task's
	// schema has an entry for each column.
	Missing map[string]Missing `yaml:"missing" json:"missing,omitempty"`
	// Only lists the columns that become features. If it is empty, all columns with bounds,
	// dates or a vocabulary do.
	Only []string `yaml:"only" json:"-"`
	// Separator stands between the cells of a .csv file: comma, semicolon, tab, pipe, or the
	// character. The default is a comma, in a .tsv file a tab.
	Separator string `yaml:"separator" json:"separator,omitempty"`
	// Decimal is the decimal sign of numbers: a point, the default, or a comma. Numbers with a
	// decimal comma may have points between thousands.
	Decimal string `yaml:"decimal" json:"decimal,omitempty"`
	// Inputs is the order of the columns that become features. If it is empty, the order is
	// that of the file, or alphabetical if the file has no order. A task's schema contains
	// the order that was used.
	Inputs []string `yaml:"inputs" json:"inputs,omitempty"`
	// Text is the name of the column that becomes an example's indices. * stands for all columns with bounds, dates or a
	// vocabulary, which a [RowTemplate] joins to one text, for PredictNext.
	Text string `yaml:"text" json:"text,omitempty"`
	// TextPair is the name of the column with the second text of an example, which a public tokenizer joins with the
	// first.
	TextPair string `yaml:"text-pair" json:"text_pair,omitempty"`
	// Tokens is the conversion of text to indices: "bytes"; "words", for the words of
	// Words; "ngrams:BUCKETS", for the set of hashed n-grams of the text's words, which is the
	// default for a text with a label or a target; or a number, if the column contains indices below it, separated by spaces or
	// in a list.
	Tokens string `yaml:"tokens" json:"tokens,omitempty"`
	// Words is the vocabulary. All words that are not listed share one more index.
	Words []string `yaml:"words" json:"words,omitempty"`
	// Vectors are the word vectors of the conversion "vectors".
	Vectors *WordVectors `yaml:"-" json:"vectors,omitempty"`
	// Tokenizer is that of the conversion "tokenizer".
	Tokenizer *PretrainedTokenizer `yaml:"-" json:"tokenizer,omitempty"`
	// Length is the number of indices of an example. Longer texts are cut, and shorter
	// texts are padded.
	Length int `yaml:"length" json:"length,omitempty"`
	// PredictNext trains a language model: there is no label column, and the label of each
	// step is the next index. Texts then begin and end with one more index; for bytes it is
	// that of a newline.
	PredictNext bool `yaml:"next" json:"next,omitempty"`
	// Pack joins the texts of a user into examples of Length steps, for PredictNext with a public checkpoint: no step of a
	// text sees another text. Longer texts are not cut off: they become several examples of their user.
	Pack bool `yaml:"pack" json:"pack,omitempty"`
	// Masked is the share of the ids of a public tokenizer that are masked; the labels are these ids. There is no label
	// column then.
	Masked float64 `yaml:"masked" json:"masked,omitempty"`
	// Ignore lists the columns that are not read. * stands for all that the schema does not
	// describe.
	Ignore []string `yaml:"ignore" json:"ignore,omitempty"`
	// User is the name of the column with the user that a row belongs to. It is not a feature.
	User string `yaml:"user" json:"user,omitempty"`
	// Weight is the name of the column with the weight of a row in a weighted mean. It is not a
	// feature. A cell that is not a number is NaN: no error depends on it.
	Weight string `yaml:"weight" json:"weight,omitempty"`

	// Only feature columns are read. Other columns need not exist.
	featuresOnly bool
	// cellStates asks for the states of the cells.
	cellStates bool
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
	return s.Label != "" || s.Target != "" || len(s.Bounds) > 0 || len(s.Dates) > 0 || len(s.Vocabulary) > 0 ||
		s.Text != "" || s.TextPair != "" || len(s.Ignore) > 0 || s.User != "" || s.Weight != ""
}

// textual reports whether a field is set that is only for text or indices.
func (s Schema) textual() bool {
	return s.Tokens != "" || len(s.Words) > 0 || s.Length != 0 || s.labelsItself() || s.Pack
}

// labelsItself reports whether the labels are indices of the text.
func (s Schema) labelsItself() bool { return s.PredictNext || s.Masked != 0 }

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
		if len(vocabulary) == 1 && strings.Contains(vocabulary[0], ",") {
			return fmt.Errorf("the vocabulary of column %q is one word with a comma, %q; separate words by | (%s), or write them as a list", column, vocabulary[0], strings.Join(splitList(vocabulary[0], ","), "|"))
		}
	}
	if err := s.validateCells(); err != nil {
		return err
	}
	if s.Tokens != "" || len(s.Words) > 0 {
		if err := s.checkTokens(); err != nil {
			return err
		}
	}
	if err := s.checkMasked(); err != nil {
		return err
	}
	const longest = 1 << 20
	switch {
	case s.Length < 0 || s.Length > longest:
		return fmt.Errorf("length %d: an example needs between 1 and 2^20 indices", s.Length)
	case s.Tokens == byVectors && s.Length != 0:
		return errors.New("length is the number of indices, and word vectors give no indices; leave out length")
	case s.Tokens == byVectors && s.PredictNext:
		return setting.Errorf("tokens", "with next the network predicts the next index, and word vectors give no indices; write %v, or %v with a public vocabulary",
			setting.With("tokens", "bytes"), setting.With("tokens", "words:FILE"))
	case s.writesRows() && (!s.PredictNext || s.TextPair != ""):
		return setting.Errorf("text", "%v writes each row as one text for the prediction of the next index; write %v, or name a column", setting.With("text", "'*'"), setting.Named("next"))
	case s.Text != "" && !s.writesRows() && (len(s.withoutTarget().Bounds) > 0 || len(s.Dates) > 0 || len(s.Vocabulary) > 0):
		return fmt.Errorf("column %q is text, and other columns have bounds or a vocabulary, but a network reads either indices or numbers; ignore one kind of columns", s.Text)
	case s.TextPair != "" && s.Text == "":
		return setting.Errorf("text", "column %q is the second text of an example, and the first is not given; write %v with its column", s.TextPair, setting.Named("text"))
	case s.TextPair != "" && s.Tokens != "" && s.Tokens != byTokenizer:
		return s.errPairTokens()
	case s.TextPair != "" && s.PredictNext:
		return setting.Errorf("text-pair", "%v is for one label or target of two texts, and with next each step has a label; leave one out", setting.With("text-pair", s.TextPair))
	case s.Target != "" && (s.Label != "" || len(s.Classes) > 0):
		return fmt.Errorf("a target, %q, and a label or classes are given, but a network predicts either a number or a class; leave one out", s.Target)
	case s.PredictNext && s.Target != "":
		return errors.New("a target and next are given, but with next the network predicts the next indices; leave one out")
	case s.PredictNext && (s.Label != "" || len(s.Classes) > 0):
		return errors.New("a label or classes and next are given, but with next the labels are the next indices; leave one out")
	}
	if c, twice := repeated(s.columns()); twice {
		return fmt.Errorf("column %q is used in two ways; it can be the label, the user, the weight, the text or ignored, or have bounds, dates or a vocabulary", c)
	}
	return nil
}

// validateCells checks how cells are read: separator, numbers, dates and missing values.
func (s Schema) validateCells() error {
	if _, err := s.separator(); err != nil {
		return err
	}
	if s.Decimal != "" && s.Decimal != "." && s.Decimal != "," {
		return fmt.Errorf("the decimal sign is %q; write . or ,", s.Decimal)
	}
	if _, err := parseDateFormat(s.DateFormat); err != nil {
		return err
	}
	for _, column := range s.Only {
		if _, described := s.inputColumn(column); !described || column == s.Target {
			return fmt.Errorf("only: column %q has neither bounds nor dates nor a vocabulary", column)
		}
	}
	for column, d := range s.Dates {
		if !d[0].Before(d[1]) {
			return fmt.Errorf("the dates of column %q are %s and %s; the first must be before the last", column, d[0].Format(time.DateOnly), d[1].Format(time.DateOnly))
		}
	}
	for column, scale := range s.Scale {
		b, numeric := s.Bounds[column]
		if !numeric || column == s.Target {
			return fmt.Errorf("column %q has the scale %s and is no feature with bounds; give it bounds, or leave out the scale", column, scale)
		}
		if err := scale.check(b); err != nil {
			return fmt.Errorf("column %q: %w", column, err)
		}
	}
	for column, m := range s.Missing {
		c, described := s.inputColumn(column)
		forNumbers := slices.Contains([]Missing{MissingBlank, MissingZero, MissingMiddle, MissingIndicator}, m)
		forWords := m == MissingBlank || m == MissingWord
		switch {
		case column == allColumns && (forNumbers || forWords):
		case column != allColumns && (!described || column == s.Target):
			return fmt.Errorf("missing: column %q is no feature with bounds, dates or a vocabulary", column)
		case c.isWords() && !forWords:
			return fmt.Errorf("missing: column %q has words; write blank or word, not %q", column, m)
		case !c.isWords() && !forNumbers:
			return fmt.Errorf("missing: %q is unknown for column %q; write blank, zero, middle or indicator for numbers, blank or word for words", m, column)
		}
	}
	return nil
}

// resolved returns the schema with what it leaves open: Only is applied, and each input has an
// encoding of missing values.
func (s Schema) resolved() (Schema, error) {
	if err := s.validate(); err != nil {
		return s, err
	}
	s = s.withOnly().withTextDefaults()
	missing := map[string]Missing{}
	for _, name := range slices.AppendSeq(slices.Collect(maps.Keys(s.Bounds)), maps.Keys(s.Dates)) {
		if missing[name] = s.missing(name); missing[name] == "" || missing[name] == MissingWord {
			missing[name] = MissingMiddle
		}
	}
	delete(missing, s.Target)
	for name := range s.Vocabulary {
		if missing[name] = MissingWord; s.missing(name) == MissingBlank {
			missing[name] = MissingBlank
		}
	}
	if s.Missing = nil; len(missing) > 0 {
		s.Missing = missing
	}
	return s, nil
}

// withOnly describes the columns of Only alone, and ignores all others.
func (s Schema) withOnly() Schema {
	if len(s.Only) == 0 {
		return s
	}
	unused := func(name string) bool { return name != s.Target && !slices.Contains(s.Only, name) }
	s.Bounds, s.Dates, s.Vocabulary, s.Scale, s.Missing = maps.Clone(s.Bounds), maps.Clone(s.Dates),
		maps.Clone(s.Vocabulary), maps.Clone(s.Scale), maps.Clone(s.Missing)
	maps.DeleteFunc(s.Bounds, func(name string, _ Bounds) bool { return unused(name) })
	maps.DeleteFunc(s.Dates, func(name string, _ DateBounds) bool { return unused(name) })
	maps.DeleteFunc(s.Vocabulary, func(name string, _ []string) bool { return unused(name) })
	maps.DeleteFunc(s.Scale, func(name string, _ Scale) bool { return unused(name) })
	maps.DeleteFunc(s.Missing, func(name string, _ Missing) bool { return name != allColumns && unused(name) })
	s.Ignore, s.Only = append(slices.Clip(s.Ignore), allColumns), nil
	return s
}

// separators are the names of characters between cells.
var separators = map[string]rune{"comma": ',', "semicolon": ';', "tab": '\t', "pipe": '|'}

// separator returns the character between cells.
func (s Schema) separator() (rune, error) {
	if s.Separator == "" {
		return ',', nil
	}
	for name, r := range separators {
		if s.Separator == name || s.Separator == string(r) {
			return r, nil
		}
	}
	return 0, fmt.Errorf("the separator %q is unknown; write comma, semicolon, tab or pipe", s.Separator)
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
	ignored := slices.DeleteFunc(slices.Clone(s.Ignore), func(name string) bool { return name == allColumns })
	named := slices.Compact(slices.Sorted(slices.Values(ignored))) // ignoring a column twice is no error
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
	for _, text := range []string{s.Text, s.TextPair} {
		if text != "" && text != rowText {
			named = append(named, text)
		}
	}
	for c := range s.Bounds {
		named = append(named, c)
	}
	for c := range s.Dates {
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
