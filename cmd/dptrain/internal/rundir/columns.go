package rundir

import (
	"slices"
	"time"

	"github.com/dptrain/dptrain/engine/data"
)

// Column describes the use of one column of the data, as the user declared it.
type Column struct {
	Name   string       `json:"name"`
	Use    string       `json:"use"`              // number, date, words, text, label, target, user, weight or ignored
	Bounds *data.Bounds `json:"bounds,omitempty"` // of a number and of a target
	Dates  []string     `json:"dates,omitempty"`  // the first and the last of a date
	Scale  data.Scale   `json:"scale,omitempty"`  // of a number
	Words  []string     `json:"words,omitempty"`  // the first words of a vocabulary, or the first classes of a label
	Count  int          `json:"count,omitempty"`  // words or classes

	// Missing is what a cell without a value becomes.
	Missing data.Missing `json:"missing,omitempty"`
}

// maxColumns and maxWords bound what run.json lists; model.json contains everything.
const (
	maxColumns = 200
	maxWords   = 20
)

// Columns describes the columns of a task's schema, the predicted one first, and counts those that it
// leaves out.
func Columns(s data.Schema) (columns []Column, omitted int) {
	add := func(name, use string, bounds *data.Bounds, words []string) {
		if name != "" {
			columns = append(columns, Column{Name: name, Use: use, Bounds: bounds,
				Words: words[:min(len(words), maxWords)], Count: len(words)})
		}
	}
	if s.Target != "" {
		bounds := s.Bounds[s.Target]
		add(s.Target, "target", &bounds, nil)
	}
	add(s.Label, "label", nil, s.Classes)
	add(s.User, "user", nil, nil)
	add(s.Weight, "weight", nil, nil)
	add(s.Text, "text", nil, nil)
	add(s.TextPair, "second text", nil, nil)
	for _, c := range s.InputColumns() {
		switch {
		case c.Words != nil:
			add(c.Name, "words", nil, c.Words)
		case c.Dates != data.DateBounds{}:
			add(c.Name, "date", nil, nil)
			columns[len(columns)-1].Dates = []string{c.Dates[0].Format(time.DateOnly), c.Dates[1].Format(time.DateOnly)}
		default:
			add(c.Name, "number", &c.Bounds, nil)
		}
		columns[len(columns)-1].Scale, columns[len(columns)-1].Missing = c.Scale, c.Missing
	}
	for _, name := range slices.Sorted(slices.Values(s.Ignore)) {
		add(name, "ignored", nil, nil)
	}
	if n := len(columns); n > maxColumns {
		return columns[:maxColumns], n - maxColumns
	}
	return columns, 0
}
