// Package prediction converts predictions to rows of a table and writes the rows as CSV or as JSON
// lines.
package prediction

import (
	"errors"

	"github.com/dptrain/dptrain/models/inference"
)

// Format converts a prediction to the cells of a row. A cell is a string or a float32.
type Format struct {
	Columns []string

	isNumber         bool
	allProbabilities bool
}

// ErrNoProbability is the error for the probabilities of a model that predicts a number.
var ErrNoProbability = errors.New("the model predicts a number, which has no probability: leave out --scores")

// NewFormat returns the format of a model: a class or a number. allProbabilities adds a column for the
// probability of each class.
func NewFormat(m *inference.Model, allProbabilities bool) (Format, error) {
	if target := m.Target(); target != "" {
		if allProbabilities {
			return Format{}, ErrNoProbability
		}
		return Format{Columns: []string{target}, isNumber: true}, nil
	}
	columns := []string{"class", "probability"}
	if allProbabilities {
		for _, name := range m.Classes() {
			columns = append(columns, "probability:"+name)
		}
	}
	return Format{Columns: columns, allProbabilities: allProbabilities}, nil
}

// AppendCells appends the cells of one example.
func (f Format) AppendCells(cells []any, p inference.Prediction) []any {
	if f.isNumber {
		return append(cells, float32(p.Value))
	}
	cells = append(cells, p.Class, float32(p.Probability))
	if f.allProbabilities {
		for _, p := range p.Probabilities {
			cells = append(cells, float32(p))
		}
	}
	return cells
}

// Answer returns a prediction as an object.
func Answer(m *inference.Model, p inference.Prediction) map[string]any {
	if target := m.Target(); target != "" {
		return map[string]any{target: float32(p.Value)}
	}
	probabilities := map[string]any{}
	for i, name := range m.Classes() {
		probabilities[name] = float32(p.Probabilities[i])
	}
	return map[string]any{"class": p.Class, "probability": float32(p.Probability), "probabilities": probabilities}
}
