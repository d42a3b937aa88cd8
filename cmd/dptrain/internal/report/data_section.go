package report

import (
	"fmt"
	"path"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
)

// dataSection shows where the data came from, and what was declared about its columns.
type dataSection struct {
	Rows    []row
	Columns []row // the name of a column, and its use with its bounds or words
	Rest    []row // columns behind the first ones
	Omitted string
}

// openColumns is the number of columns that are shown at once.
const openColumns = 30

func (s *summary) dataSection() *dataSection {
	d := &dataSection{Rows: []row{{"training data", s.describeTrainingData()}, {"test data", s.describeTestData()}}}
	for _, c := range s.Columns {
		d.Columns = append(d.Columns, row{c.Name, describeColumn(c)})
	}
	if len(d.Columns) > openColumns {
		d.Columns, d.Rest = d.Columns[:openColumns], d.Columns[openColumns:]
	}
	if s.OmittedColumns > 0 {
		d.Omitted = fmt.Sprintf("%s more are in model.json.", plural(s.OmittedColumns, "column"))
	}
	return d
}

func (s *summary) describeTrainingData() string {
	text := s.dataName()
	switch {
	case s.Generated:
		text += ", drawn by the program; it contains no person's data"
	case s.Private:
		text += ", private"
	}
	if s.Lots.Records > 0 {
		text += ", " + plural(s.Lots.Records, "record")
	}
	return text
}

func (s *summary) describeTestData() string {
	switch {
	case s.TestExamples == 0:
		return "none: nothing on this page was measured on public data"
	case s.Split != nil:
		return DescribeSplit(s.TestExamples, s.Split.Rows)
	case s.TestData != "":
		return baseName(s.TestData) + ", public, " + plural(s.TestExamples, "example")
	}
	return "the public test part of " + s.dataName() + ", " + plural(s.TestExamples, "example")
}

// DescribeSplit states that the test rows of --split are public.
func DescribeSplit(test, rows int) string {
	return fmt.Sprintf("%s of the file, drawn at random from %s, are public by the user's declaration: they are the test data, were not trained on, and no guarantee covers them", plural(test, "row"), number.Thousands(rows))
}

// baseName is the last element of a path of Windows or another system. A run that was trained on one may be
// reported on the other.
func baseName(name string) string { return path.Base(strings.ReplaceAll(name, `\`, "/")) }

// describeColumn states the use of a column, with its bounds or words.
func describeColumn(c rundir.Column) string {
	switch c.Use {
	case "number", "target":
		text := map[string]string{"number": "a number", "target": "predicted, a number"}[c.Use]
		if c.Bounds != nil {
			text += fmt.Sprintf(" from %s to %s", signedTick(c.Bounds[0]), signedTick(c.Bounds[1]))
		}
		if c.Scale != "" {
			text += ", on the scale " + string(c.Scale)
		}
		return text + describeMissing(c)
	case "date":
		return "a date from " + strings.Join(c.Dates, " to ") + describeMissing(c)
	case "words":
		return plural(c.Count, "word") + ": " + listed(c) + describeMissing(c)
	case "label":
		return "predicted, " + strings.Replace(plural(c.Count, "class"), "classs", "classes", 1) + ": " + listed(c)
	case "user":
		return "the user of a row, who is protected with all rows; not a feature"
	case "weight":
		return "the weight of a row; not a feature"
	case "text":
		return "text"
	case "ignored":
		return "not read"
	}
	return c.Use
}

// describeMissing states what a cell without a value becomes, where it is not the default.
func describeMissing(c rundir.Column) string {
	switch c.Missing {
	case "blank":
		return "; without a value the record is blank"
	case "zero":
		return "; without a value it is 0"
	case "indicator":
		return "; without a value it is the middle, and another feature is 1"
	}
	return ""
}

// listed lists the words, and counts those that are left out.
func listed(c rundir.Column) string {
	const limit = 12
	words := c.Words[:min(len(c.Words), limit)]
	text := strings.Join(words, ", ")
	if more := c.Count - len(words); more > 0 {
		text += fmt.Sprintf(" and %s more", number.Thousands(more))
	}
	return text
}
