package rundir

import (
	"slices"

	"github.com/dptrain/dptrain/engine/data"
)

// Column describes the use of one column of the data, as the user declared it.
type Column struct {
	Name   string       `json:"name"`
	Use    string       `json:"use"`              // number, words, text, label, target, user, weight or ignored
	Bounds *data.Bounds `json:"bounds,omitempty"` // of a number and of a target
	Words  []string     `json:"words,omitempty"`  // the first words of a vocabulary, or the first classes of a label
	Count  int          `json:"count,omitempty"`  // words or classes
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
			columns = append(columns, Column{name, use, bounds, words[:min(len(words), maxWords)], len(words)})
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
	for _, name := range s.Inputs {
		if words, isWord := s.Vocabulary[name]; isWord {
			add(name, "words", nil, words)
		} else if bounds, ok := s.Bounds[name]; ok {
			add(name, "number", &bounds, nil)
		}
	}
	for _, name := range slices.Sorted(slices.Values(s.Ignore)) {
		add(name, "ignored", nil, nil)
	}
	if n := len(columns); n > maxColumns {
		return columns[:maxColumns], n - maxColumns
	}
	return columns, 0
}
