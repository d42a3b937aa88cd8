package data

import "fmt"

// CellState says whether a cell of a table fits the schema. A statistic of a private table can
// release shares of the states with noise.
type CellState uint8

// The states.
const (
	CellFits    CellState = iota
	CellOutside           // a number or date outside the bounds, or a word outside the vocabulary
	CellEmpty             // a cell without a value
)

// CellStateSet is a Set that knows the states of the cells that its examples were read from.
type CellStateSet interface {
	Set
	// CellStates returns the states of all examples, with the same number of cells for each: those
	// of [Schema.CheckedColumns]. It returns nil if the set does not know them. They are private.
	// The caller must not change them.
	CellStates() []CellState
}

// CellStates returns the states of the cells of a set's examples, or nil if the set does not know
// them. The result is private.
func CellStates(s Set) []CellState {
	if c, ok := s.(CellStateSet); ok {
		return c.CellStates()
	}
	return nil
}

// ValidatedCellStates returns CellStates(s) and the number of an example's cells. It returns an error
// unless each example has the same number.
func ValidatedCellStates(s Set) (states []CellState, cells int, err error) {
	states = CellStates(s)
	if len(states) == 0 {
		return nil, 0, nil
	}
	if s.Len() == 0 || len(states)%s.Len() != 0 {
		return nil, 0, fmt.Errorf("%d examples have %d states of cells; give each example the same number", s.Len(), len(states))
	}
	return states, len(states) / s.Len(), nil
}

// withStates is a set with the states of its cells.
type withStates struct {
	Set
	states []CellState
}

// WithCellStates returns a set with these states of the cells of its examples. It keeps the slice.
func WithCellStates(s Set, states []CellState) (Set, error) {
	if states == nil {
		return s, nil
	}
	w := &withStates{s, states}
	_, _, err := ValidatedCellStates(w)
	return w, err
}

func (w *withStates) CellStates() []CellState { return w.states }
func (w *withStates) Users() []int32          { return Users(w.Set) }
func (w *withStates) Blank() []bool           { return Blank(w.Set) }
func (w *withStates) Weights() []float64      { return Weights(w.Set) }

func (w *weighted) CellStates() []CellState    { return CellStates(w.Set) }
func (p *partlyBlank) CellStates() []CellState { return CellStates(p.Set) }
func (s *subset) CellStates() []CellState      { return s.states }

// CheckedColumns returns the names of the columns whose cells have a state: the inputs in their order,
// and the target. They are nil for text.
func (s Schema) CheckedColumns() (names []string) {
	for _, c := range s.InputColumns() {
		names = append(names, c.Name)
	}
	if names != nil && s.Target != "" {
		names = append(names, s.Target)
	}
	return names
}

// state returns the state of a cell that encode reads.
func (c *InputColumn) state(cell string) CellState {
	_, known := c.slots[cell]
	switch {
	case known:
		return CellFits
	case isMissing(cell):
		return CellEmpty
	case c.isWords() || c.outside(cell):
		return CellOutside
	}
	return CellFits
}
