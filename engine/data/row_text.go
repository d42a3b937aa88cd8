package data

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dptrain/dptrain/internal/setting"
)

// rowText is the name of a text column that does not exist: the text of a row is its other columns.
const rowText = "*"

// missingText stands for a cell without a value, and for a word that the schema does not list.
const missingText = "?"

// RowTemplate writes rows of a table as texts, such as "age: 39, sex: Male", and reads such texts. It is a function of a
// schema: the names of its columns in their order, and what their cells can be.
type RowTemplate struct {
	columns []InputColumn
}

// writesRows reports whether the texts are rows of a table.
func (s Schema) writesRows() bool { return s.Text == rowText }

// RowTemplate returns the template of a task's schema whose texts are rows.
func (s Schema) RowTemplate() (*RowTemplate, error) {
	if !s.writesRows() {
		return nil, setting.Errorf("text", "the texts are no rows of a table; train with %v, and bounds, dates or a vocabulary for each column", setting.With("text", "'*'"))
	}
	return newRowTemplate(s, s.Inputs)
}

func newRowTemplate(s Schema, names []string) (*RowTemplate, error) {
	t := &RowTemplate{}
	for _, name := range names {
		c, described := s.inputColumn(name)
		if !described {
			return nil, fmt.Errorf("the column %q has neither bounds nor dates nor a vocabulary", name)
		}
		t.columns = append(t.columns, c)
	}
	for k, c := range t.columns {
		for _, text := range append([]string{c.Name}, c.Words...) {
			if strings.ContainsAny(text, "\n\r") || k+1 < len(t.columns) && strings.Contains(text, t.begin(k+1)) {
				return nil, setting.Errorf("text", "column %q: %.40q contains the end of a line or %q, which stands between columns; rename one of them", c.Name, text, t.begin(min(k+1, len(t.columns)-1)))
			}
		}
	}
	return t, nil
}

// Columns returns the names of the columns in their order.
func (t *RowTemplate) Columns() (names []string) {
	for _, c := range t.columns {
		names = append(names, c.Name)
	}
	return names
}

// Example returns a text of public facts: the lower bounds, the first dates and the first words.
func (t *RowTemplate) Example() string {
	var text []byte
	for k, c := range t.columns {
		cell := strconv.FormatFloat(c.Bounds[0], 'f', -1, 64)
		if c.isWords() {
			cell = c.Words[0]
		} else if c.isDate() {
			cell = c.Dates[0].Format(time.DateOnly)
		}
		text = append(append(text, t.begin(k)...), cell...)
	}
	return string(text)
}

// IsNumber reports whether the cells of a column are numbers.
func (t *RowTemplate) IsNumber(k int) bool { return !t.columns[k].isWords() && !t.columns[k].isDate() }

// begin is what stands in front of the cell of column k.
func (t *RowTemplate) begin(k int) string {
	if k == 0 {
		return t.columns[k].Name + ": "
	}
	return ", " + t.columns[k].Name + ": "
}

// appendCell appends column k of a row to its text.
func (t *RowTemplate) appendCell(text []byte, k int, cell string) ([]byte, error) {
	content, err := t.columns[k].canonical(cell)
	return append(append(text, t.begin(k)...), content...), err
}

// canonical returns the cell of a text: a number or date is within its bounds, and a word is one of the vocabulary.
func (c *InputColumn) canonical(cell string) (string, error) {
	_, known := c.slots[cell]
	switch {
	case c.isWords() && known:
		return cell, nil
	case c.isWords() && (c.Missing != MissingBlank || !isMissing(cell)):
		return missingText, nil
	case isMissing(cell) && (c.Missing == "" || c.Missing == MissingBlank):
		return "", errMissing
	case isMissing(cell):
		return missingText, nil
	case c.isDate():
		d, err := c.parseDate(cell)
		if err != nil {
			return "", errNotDate
		}
		if d.Before(c.Dates[0]) {
			d = c.Dates[0]
		} else if d.After(c.Dates[1]) {
			d = c.Dates[1]
		}
		return d.Format(time.DateOnly), nil
	}
	v, ok := c.parseNumber(cell)
	if !ok {
		return "", errNotNumber
	}
	return strconv.FormatFloat(min(max(v, c.Bounds[0]), c.Bounds[1]), 'f', -1, 64), nil
}

// Parse returns the cells of a text, as a file with the schema has them. Ok is false unless the text has the form of the
// template, its numbers and dates are within their bounds, and its words are in the vocabulary. A cell without a value is
// empty.
func (t *RowTemplate) Parse(text string) (cells []string, ok bool) {
	rest, found := strings.CutPrefix(text, t.begin(0))
	if !found {
		return nil, false
	}
	for k := range t.columns {
		cell := rest
		if k+1 < len(t.columns) {
			if cell, rest, found = strings.Cut(rest, t.begin(k+1)); !found {
				return nil, false
			}
		}
		if cell, ok = t.columns[k].parseCanonical(cell); !ok {
			return nil, false
		}
		cells = append(cells, cell)
	}
	return cells, true
}

// parseCanonical returns the cell of a file for the cell of a text.
func (c *InputColumn) parseCanonical(text string) (cell string, ok bool) {
	if _, known := c.slots[text]; known || text == missingText && c.Missing != MissingBlank {
		if known {
			return text, true
		}
		return "", c.isWords() || c.Missing != ""
	}
	switch {
	case c.isWords():
		return "", false
	case c.isDate():
		d, err := time.Parse(time.DateOnly, text)
		if err != nil || d.Before(c.Dates[0]) || d.After(c.Dates[1]) {
			return "", false
		}
		if c.dateFormat != "" {
			return d.Format(c.dateFormat), true
		}
		return text, true
	}
	v, ok := parseNumber(text)
	if !ok || math.IsInf(v, 0) || v < c.Bounds[0] || v > c.Bounds[1] || text != strings.Trim(text, " \t_+") {
		return "", false
	}
	if cell = strconv.FormatFloat(v, 'f', -1, 64); c.decimalComma {
		cell = strings.Replace(cell, ".", ",", 1)
	}
	return cell, true
}
