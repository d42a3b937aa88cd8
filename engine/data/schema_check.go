package data

import (
	"fmt"
	"io"
	"strings"
)

// SchemaReport compares the rows of a public table with a schema. It is a function of the rows, and
// no guarantee covers it.
type SchemaReport struct {
	Rows int `json:"rows"`
	// BadRows counts the rows that are not split into the schema's columns, such as one with too
	// few fields. Their cells are in no other count.
	BadRows int `json:"bad_rows"`
	// BadRow describes the first of them.
	BadRow string `json:"bad_row,omitempty"`
	// BlankRows counts the rows that become blank in training, bad rows included.
	BlankRows int            `json:"blank_rows"`
	Columns   []ColumnReport `json:"columns"` // without ignored ones
}

// ColumnReport counts the cells of a column that do not fit its description in a schema. A cell is
// in at most one count.
type ColumnReport struct {
	Name        string `json:"name"`
	DescribedBy string `json:"described_by"` // bounds, dates, vocabulary, label, target, user, weight or text
	Outside     int    `json:"outside"`      // numbers outside the bounds
	Unknown     int    `json:"unknown"`      // words outside the vocabulary, or unknown classes
	NotNumbers  int    `json:"not_numbers"`  // words in a column of numbers or dates
	Empty       int    `json:"empty"`
	Constant    bool   `json:"constant"` // all cells are equal, and there are at least two
	// Histogram counts numbers and dates in parts of equal length between the bounds, and the
	// words of a vocabulary or the classes in their order.
	Histogram []int `json:"histogram,omitempty"`

	cells   int
	first   string
	notUTF8 bool
}

// CheckSchema compares the rows of a public file with a schema. It returns an error if the file
// lacks a column, or if all rows are bad.
func CheckSchema(file string, s Schema) (*SchemaReport, error) {
	s, err := s.resolved()
	if err != nil {
		return nil, err
	}
	report, err := readTableFile(file, func(t *columnarTable) (*SchemaReport, error) {
		return checkColumnar(t, s)
	}, func(r io.Reader, extension string) (*SchemaReport, error) {
		if extension == ".jsonl" {
			return checkJSONL(r, s)
		}
		return checkCSV(r, s.forFile(file))
	})
	if err != nil {
		return nil, err
	}
	switch report.Rows {
	case 0:
		return nil, fmt.Errorf("%s: the file has no rows", file)
	case report.BadRows:
		return nil, fmt.Errorf("%s: no row has the columns of the schema; the first problem: %s", file, report.BadRow)
	}
	return report, nil
}

// readTableFile opens a file and reads it by column or by row. The extension of a file of rows is
// .csv, .tsv or .jsonl.
func readTableFile[T any](
	file string, byColumn func(*columnarTable) (T, error), byRow func(r io.Reader, extension string) (T, error),
) (result T, err error) {
	fail := func(err error) (T, error) { return result, fmt.Errorf("%s: %w", file, withoutPath(err)) }
	if format := columnarFormat(file); format != "" {
		t, err := openColumnar(file, format)
		if err != nil {
			return fail(err)
		}
		defer t.Close()
		if result, err = byColumn(t); err != nil {
			return fail(err)
		}
		return result, nil
	}
	extension := extension(file)
	if extension != ".csv" && extension != ".tsv" && extension != ".jsonl" {
		return fail(fmt.Errorf("a schema describes the columns of a table; %w", unsupportedFormat(file, tableFormats)))
	}
	f, err := openDataFile(file)
	if err != nil {
		return result, fmt.Errorf("cannot read %s: %w", file, err)
	}
	defer f.Close()
	if result, err = byRow(f, extension); err != nil {
		return fail(err)
	}
	return result, nil
}

func checkColumnar(t *columnarTable, s Schema) (*SchemaReport, error) {
	l, err := newLayout(t.names, s)
	if err != nil {
		return nil, err
	}
	check := newSchemaCheck(l)
	err = t.each(l, func(_ int, row []string, problem error) error {
		check.add(row, problem)
		return nil
	})
	return &check.report, err
}

func checkCSV(r io.Reader, s Schema) (*SchemaReport, error) {
	in, l, err := openCSVRows(r, s)
	if err != nil {
		return nil, err
	}
	check := newSchemaCheck(l)
	err = in.each(func(row []string, problem error) error {
		check.add(row, problem)
		return nil
	})
	return &check.report, err
}

func checkJSONL(r io.Reader, s Schema) (*SchemaReport, error) {
	l, err := newLayout(s.columns(), s)
	if err != nil {
		return nil, err
	}
	check := newSchemaCheck(l)
	err = eachJSONLRow(r, l, s, func(_ int, row []string, problem error) error {
		check.add(row, problem)
		return nil
	})
	return &check.report, err
}

// schemaCheck collects a report row by row.
type schemaCheck struct {
	layout *rowLayout
	report SchemaReport
	used   []int // the columns of the file that the report contains

	features []float32 // of one cell
}

func newSchemaCheck(l *rowLayout) *schemaCheck {
	c := &schemaCheck{layout: l}
	for k, role := range l.roles {
		by := "bounds"
		switch {
		case role.ignore:
			continue
		case k == l.label:
			by = "label"
		case k == l.target:
			by = "target"
		case k == l.user:
			by = "user"
		case k == l.weight:
			by = "weight"
		case k == l.text, k == l.pair:
			by = "text"
		case role.isWords():
			by = "vocabulary"
		case role.isDate():
			by = "dates"
		}
		c.used = append(c.used, k)
		c.report.Columns = append(c.report.Columns, ColumnReport{Name: role.Name, DescribedBy: by,
			Histogram: make([]int, c.histogramLength(by, k))})
	}
	return c
}

// add counts the cells of a row, or a row that cannot be split into cells.
func (c *schemaCheck) add(row []string, problem error) {
	c.report.Rows++
	if problem != nil {
		c.report.BadRows++
		c.report.BlankRows++
		if c.report.BadRow == "" {
			c.report.BadRow = problem.Error()
		}
		return
	}
	blank := false
	for i, k := range c.used {
		column, cell := &c.report.Columns[i], strings.TrimSpace(row[k])
		if column.cells++; column.cells == 1 {
			column.first = strings.Clone(cell)
		}
		column.Constant = cell == column.first && (column.Constant || column.cells == 2)
		if c.count(column, k, cell) {
			blank = true
		}
		c.addToHistogram(column, k, cell)
	}
	if blank {
		c.report.BlankRows++
	}
}

// count counts a cell that does not fit its description. It reports whether the row becomes blank
// in training.
func (c *schemaCheck) count(column *ColumnReport, k int, cell string) (blank bool) {
	role := &c.layout.roles[k]
	var counter *int
	switch column.DescribedBy {
	case "label":
		if _, known := c.layout.classes[cell]; !known {
			counter, blank = &column.Unknown, true
		}
	case "vocabulary":
		if _, known := role.slots[cell]; !known {
			counter, blank = &column.Unknown, isMissing(cell) && role.Missing == MissingBlank
		}
	case "user":
		if cell == "" {
			counter, blank = &column.Empty, true
		}
	case "text":
		if c.layout.pair >= 0 {
			break // a public tokenizer reads each text
		}
		if _, err := c.layout.tokens.add(nil, cell); err != nil {
			counter, blank = &column.NotNumbers, true
		}
	case "weight":
		if _, ok := parseNumber(cell); !ok {
			counter = &column.NotNumbers
		}
	default:
		var err error
		c.features, err = role.encode(c.features[:0], cell)
		blank = err != nil || column.DescribedBy == "target" && isMissing(cell)
		switch {
		case err != nil || isMissing(cell):
			counter = &column.NotNumbers
		case role.outside(cell):
			counter = &column.Outside
		}
	}
	if counter != nil && isMissing(cell) {
		counter = &column.Empty
	}
	if counter != nil {
		*counter++
	}
	return blank
}
