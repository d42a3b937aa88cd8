package data

import (
	"fmt"
	"slices"
	"sync"
)

// readBuffers are the arguments that a combined set passes to the Read of its parts.
// They are pooled, so that Read neither allocates nor locks.
type readBuffers struct {
	rows []int
	dst  [][]float32
}

var readBuffersPool = sync.Pool{New: func() any { return new(readBuffers) }}

// subset contains examples of another set, in its own order.
type subset struct {
	parent  Set
	rows    []int
	users   []int32
	blank   []bool
	weights []float64
	states  []CellState
}

// Subset returns the set of the examples rows of s, in that order. If rows contains an
// example several times, the copies are separate examples, and each is a separate
// privacy unit. To protect the copies of one person together, give them a common user.
func Subset(s Set, rows []int) (Set, error) {
	for i, r := range rows {
		if r < 0 || r >= s.Len() {
			return nil, fmt.Errorf("subset: rows[%d] is not an example of the set of %d", i, s.Len())
		}
	}
	sub := &subset{parent: s, rows: slices.Clone(rows)}
	users, err := ValidatedUsers(s)
	if err != nil {
		return nil, fmt.Errorf("subset: %w", err)
	}
	if users != nil {
		sub.users = make([]int32, len(rows))
		for i, r := range rows {
			sub.users[i] = users[r]
		}
	}
	blank, err := ValidatedBlank(s)
	if err != nil {
		return nil, fmt.Errorf("subset: %w", err)
	}
	if blank != nil {
		sub.blank = make([]bool, len(rows))
		for i, r := range rows {
			sub.blank[i] = blank[r]
		}
	}
	weights, err := ValidatedWeights(s)
	if err != nil {
		return nil, fmt.Errorf("subset: %w", err)
	}
	if weights != nil {
		sub.weights = make([]float64, len(rows))
		for i, r := range rows {
			sub.weights[i] = weights[r]
		}
	}
	states, cells, err := ValidatedCellStates(s)
	if err != nil {
		return nil, fmt.Errorf("subset: %w", err)
	}
	if states != nil {
		sub.states = make([]CellState, 0, cells*len(rows))
		for _, r := range rows {
			sub.states = append(sub.states, states[cells*r:cells*(r+1)]...)
		}
	}
	return sub, nil
}

func (s *subset) Len() int           { return len(s.rows) }
func (s *subset) Columns() []Column  { return s.parent.Columns() }
func (s *subset) Users() []int32     { return s.users }
func (s *subset) Blank() []bool      { return s.blank }
func (s *subset) Weights() []float64 { return s.weights }

func (s *subset) Read(dst [][]float32, rows []int) error {
	t := readBuffersPool.Get().(*readBuffers)
	defer readBuffersPool.Put(t)
	t.rows = t.rows[:0]
	for _, r := range rows {
		if r < 0 || r >= len(s.rows) {
			return fmt.Errorf("there is no example %d; the set has %d examples, numbered from 0", r, len(s.rows))
		}
		t.rows = append(t.rows, s.rows[r])
	}
	return s.parent.Read(dst, t.rows)
}
