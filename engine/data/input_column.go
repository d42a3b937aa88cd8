package data

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// InputColumn describes a column of a table that the network reads: numbers within Bounds, dates
// within Dates, or Words. It encodes a cell as
//
//	numbers  one feature in [-1, 1], and one that is 1 if the number is missing and Missing is
//	         MissingIndicator
//	dates    one feature in [-1, 1] for the time, 12 for the month and 7 for the day of the week,
//	         of which one each is 1, and one as above
//	words    one feature for each word, one for all other words, and one for a missing word if
//	         Missing is MissingWord, of which one is 1
type InputColumn struct {
	Name    string
	Bounds  Bounds
	Scale   Scale
	Dates   DateBounds
	Words   []string
	Missing Missing

	slots        map[string]int // positions of Words
	dateFormat   string         // for time.Parse; "" for ISO 8601
	decimalComma bool
}

// inputColumn returns the description of a column that the network reads or predicts; false if
// the schema has none.
func (s Schema) inputColumn(name string) (c InputColumn, described bool) {
	c = InputColumn{Name: name, Scale: s.Scale[name], Missing: s.missing(name), decimalComma: s.Decimal == ","}
	bounds, numeric := s.Bounds[name]
	dates, date := s.Dates[name]
	words, word := s.Vocabulary[name]
	switch {
	case numeric:
		c.Bounds = bounds
	case date:
		c.Dates = dates
		c.dateFormat, _ = parseDateFormat(s.DateFormat) // validate reports the error
	case word:
		c.Words, c.slots = words, indexOf(words)
	}
	return c, numeric || date || word
}

// FeatureNames returns a name for each feature of an example, in order, for a task's schema of
// columns; nil for text and for arrays.
func (s Schema) FeatureNames() (names []string) {
	for _, c := range s.InputColumns() {
		names = append(names, c.featureNames()...)
	}
	return names
}

func (c *InputColumn) featureNames() (names []string) {
	switch {
	case c.isWords():
		for _, word := range c.Words {
			names = append(names, c.Name+" = "+word)
		}
		names = append(names, c.Name+" = another word")
		if c.Missing == MissingWord {
			names = append(names, c.Name+" = no value")
		}
		return names
	case c.isDate():
		names = append(names, c.Name)
		for month := range months {
			names = append(names, c.Name+" in "+time.Month(month+1).String())
		}
		for day := range weekdays {
			names = append(names, c.Name+" on "+time.Weekday(day).String())
		}
	default:
		names = append(names, c.Name)
	}
	if c.Missing == MissingIndicator {
		names = append(names, c.Name+" has no value")
	}
	return names
}

// ParsePairs parses COLUMN=VALUE,… as flags have it. A text without = is the value of all columns.
func ParsePairs[T ~string](text string) (map[string]T, error) {
	pairs := map[string]T{}
	for _, entry := range splitList(text, ",") {
		cut := strings.LastIndex(entry, "=")
		column, value := allColumns, entry
		if cut >= 0 {
			column, value = strings.TrimSpace(entry[:cut]), strings.TrimSpace(entry[cut+1:])
		}
		if _, twice := pairs[column]; twice || column == "" || value == "" {
			return nil, fmt.Errorf("%q: write COLUMN=VALUE, once for each column", text)
		}
		pairs[column] = T(value)
	}
	return pairs, nil
}

// ParseDates parses the value of the flag --dates: COLUMN=FIRST:LAST, with commas between several.
func ParseDates(text string) (map[string]DateBounds, error) {
	pairs, err := ParsePairs[string](text)
	if err != nil {
		return nil, err
	}
	dates := map[string]DateBounds{}
	for column, value := range pairs {
		var d DateBounds
		if err := d.set(strings.Split(value, ":")); err != nil {
			return nil, err
		}
		dates[column] = d
	}
	return dates, Schema{Dates: dates}.validate()
}

// InputColumns returns the columns that become features, in the order of the features. They are
// nil for a schema of text, and for one whose order is not known yet.
func (s Schema) InputColumns() []InputColumn {
	if s.Text != "" && !s.writesRows() {
		return nil
	}
	var columns []InputColumn
	for _, name := range s.Inputs {
		if c, described := s.inputColumn(name); described {
			columns = append(columns, c)
		}
	}
	return columns
}

// Missing is the encoding of a cell without a value.
type Missing string

// The encodings of a cell without a value. The empty string is MissingBlank for numbers and dates,
// and for words the position of all other words.
const (
	MissingBlank     Missing = "blank"     // the record becomes blank
	MissingZero      Missing = "zero"      // the number 0, or the nearer bound
	MissingMiddle    Missing = "middle"    // the middle of the bounds
	MissingIndicator Missing = "indicator" // the middle, and a feature of its own
	MissingWord      Missing = "word"      // a word of its own
)

// allColumns stands for all columns without an entry of their own.
const allColumns = "*"

// missing returns the encoding of a cell without a value in a column; "" if none is given.
func (s Schema) missing(column string) Missing {
	if m, given := s.Missing[column]; given {
		return m
	}
	return s.Missing[allColumns]
}

// missingCells are the cells without a value, unless a vocabulary lists them.
var missingCells = []string{"", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "?"}

// MissingCells returns the words that are a missing value in the column.
func (c *InputColumn) MissingCells() []string {
	return slices.DeleteFunc(slices.Clone(missingCells), func(word string) bool { return slices.Contains(c.Words, word) })
}

func isMissing(cell string) bool { return slices.Contains(missingCells, cell) }

// Scale is the function of a number that is scaled by the function of its bounds.
type Scale string

// The scales. The empty string is the number itself.
const (
	LogScale   Scale = "log"   // for positive bounds
	ASinhScale Scale = "asinh" // like the logarithm of large numbers, and odd
)

func (s Scale) apply(v float64) float64 {
	switch s {
	case LogScale:
		return math.Log(v)
	case ASinhScale:
		return math.Asinh(v)
	}
	return v
}

// check returns an error if the scale is unknown or has no value at a bound.
func (s Scale) check(b Bounds) error {
	switch {
	case s != "" && s != LogScale && s != ASinhScale:
		return fmt.Errorf("the scale %q is unknown; write log or asinh", s)
	case s == LogScale && !(b[0] > 0):
		return fmt.Errorf("the scale log needs a lower bound above 0, and it is %v; use asinh", b[0])
	}
	return nil
}

// DateBounds are the first and the last date of a column, at midnight UTC.
type DateBounds [2]time.Time

const (
	months   = 12
	weekdays = 7
)

// Seconds returns the limits in seconds since 1970.
func (d DateBounds) Seconds() Bounds { return Bounds{float64(d[0].Unix()), float64(d[1].Unix())} }

func (c *InputColumn) isWords() bool { return c.Words != nil }
func (c *InputColumn) isDate() bool  { return c.Dates != DateBounds{} }

// Width returns the number of features of a cell.
func (c *InputColumn) Width() int {
	width := 1
	switch {
	case c.isWords():
		width = len(c.Words) + 1
		if c.Missing == MissingWord {
			width++
		}
		return width
	case c.isDate():
		width += months + weekdays
	}
	if c.Missing == MissingIndicator {
		width++
	}
	return width
}

// Active returns the largest number of features of a cell that differ from 0 at the same time.
func (c *InputColumn) Active() int {
	if c.isDate() {
		return 3
	}
	return 1
}

var errMissing = errors.New("the cell has no value; fill it, or let the schema say what it is (missing: middle)")

var errNotDate = errors.New("the value is no date; write it as 2026-01-31, or give the schema its date-format, such as DD.MM.YYYY")

var errNotNumber = errors.New("the value is not a number; for words, give a vocabulary instead of bounds")

// encode appends the features of a cell.
func (c *InputColumn) encode(features []float32, cell string) ([]float32, error) {
	if _, known := c.slots[cell]; c.isWords() && (known || c.Missing != MissingBlank || !isMissing(cell)) {
		return appendOneHot(features, c.slotOf(cell), c.Width()), nil
	}
	if isMissing(cell) {
		return c.encodeMissing(features)
	}
	if c.isDate() {
		t, err := c.parseDate(cell)
		if err != nil {
			return features, errNotDate
		}
		features = append(features, c.Dates.Seconds().Scale(float64(t.Unix())))
		features = appendOneHot(features, int(t.Month())-1, months)
		features = appendOneHot(features, int(t.Weekday()), weekdays)
	} else {
		v, ok := c.parseNumber(cell)
		if !ok {
			return features, errNotNumber
		}
		features = append(features, c.scaled(v))
	}
	if c.Missing == MissingIndicator {
		features = append(features, 0)
	}
	return features, nil
}

// outside reports whether a number or date is outside the bounds.
func (c *InputColumn) outside(cell string) bool {
	if c.isDate() {
		t, err := c.parseDate(cell)
		return err == nil && (t.Before(c.Dates[0]) || t.After(c.Dates[1]))
	}
	v, ok := c.parseNumber(cell)
	return ok && (v < c.Bounds[0] || v > c.Bounds[1])
}

// encodeMissing appends the features of a number or date that is missing.
func (c *InputColumn) encodeMissing(features []float32) ([]float32, error) {
	number := float32(0) // the middle of the bounds
	switch c.Missing {
	case "", MissingBlank:
		return features, errMissing
	case MissingZero:
		if !c.isDate() {
			number = c.scaled(0)
		}
	}
	features = append(features, number)
	features = append(features, make([]float32, c.Width()-1)...)
	if c.Missing == MissingIndicator {
		features[len(features)-1] = 1
	}
	return features, nil
}

// scaled limits a number to the bounds and maps their scale to [-1, 1].
func (c *InputColumn) scaled(v float64) float32 {
	if c.Scale == "" {
		return c.Bounds.Scale(v)
	}
	limits := Bounds{c.Scale.apply(c.Bounds[0]), c.Scale.apply(c.Bounds[1])}
	return limits.Scale(c.Scale.apply(min(max(v, c.Bounds[0]), c.Bounds[1])))
}

// slotOf returns the position of a word.
func (c *InputColumn) slotOf(word string) int {
	if slot, known := c.slots[word]; known {
		return slot
	}
	if c.Missing == MissingWord && isMissing(word) {
		return len(c.Words) + 1
	}
	return len(c.Words)
}

func appendOneHot(features []float32, at, width int) []float32 {
	for i := range width {
		if i == at {
			features = append(features, 1)
		} else {
			features = append(features, 0)
		}
	}
	return features
}

// parseNumber returns the number in a cell, ±Inf where it is out of range.
func parseNumber(cell string) (v float64, ok bool) {
	v, err := strconv.ParseFloat(cell, 64)
	return v, (err == nil || errors.Is(err, strconv.ErrRange)) && !math.IsNaN(v)
}

// parseNumber returns the number in a cell, whose decimal sign may be a comma.
func (c *InputColumn) parseNumber(cell string) (v float64, ok bool) {
	if c.decimalComma {
		cell = strings.ReplaceAll(strings.ReplaceAll(cell, ".", ""), ",", ".")
	}
	return parseNumber(cell)
}

// isoFormats are the dates and times of ISO 8601 that are read without a date-format.
var isoFormats = []string{"2006-01-02", "2006-01-02 15:04:05", "2006-01-02T15:04:05", time.RFC3339Nano, "2006-01-02 15:04", "2006-01-02T15:04"}

func (c *InputColumn) parseDate(cell string) (t time.Time, err error) {
	if c.dateFormat != "" {
		return time.Parse(c.dateFormat, cell)
	}
	for _, format := range isoFormats {
		if t, err = time.Parse(format, cell); err == nil {
			return t, nil
		}
	}
	return t, err
}

// parseDateFormat converts a format such as DD.MM.YYYY hh:mm:ss for time.Parse.
func parseDateFormat(text string) (string, error) {
	format := strings.NewReplacer("YYYY", "2006", "MM", "01", "DD", "02", "hh", "15", "mm", "04", "ss", "05").Replace(text)
	if text != "" && (!strings.Contains(text, "YYYY") || !strings.Contains(text, "MM") || !strings.Contains(text, "DD") ||
		strings.ContainsAny(format, "YMDhms")) {
		return "", fmt.Errorf("the date format %q needs YYYY, MM and DD, and may have hh, mm and ss, as in DD.MM.YYYY", text)
	}
	return format, nil
}
