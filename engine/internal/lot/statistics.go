package lot

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/internal/release"
)

// Statistic computes the vectors of records that an entry of the list of releases sums.
type Statistic struct {
	Name   string
	Entry  int     // its number in the list
	Bound  float64 // of the vector of a record, before it is clipped with a group
	Of     func(dst []float64, record []load.Example)
	vector []float64 // of one record
	joint  []float64 // of all records of a microbatch, where the entry is a part of a group
}

// Statistics add records to the statistics of a lot.
type Statistics struct {
	sums *release.Sums
	all  []Statistic
	step int // of the lot
}

// NewStatistics returns statistics whose sums are among sums.
func NewStatistics(sums *release.Sums, all []Statistic) *Statistics {
	for i := range all {
		all[i].vector = make([]float64, sums.List[all[i].Entry].Size)
	}
	return &Statistics{sums: sums, all: all}
}

// any reports whether there are statistics.
func (s *Statistics) any() bool { return s != nil && len(s.all) > 0 }

// isDue reports whether the lot releases a statistic.
func (s *Statistics) isDue() bool {
	return slices.ContainsFunc(s.all, func(a Statistic) bool { return s.sums.List[a.Entry].IsDue(s.step) })
}

// AddRecord adds a record to the statistics that the lot releases and that are not parts of groups.
func (s *Statistics) AddRecord(record []load.Example) error {
	for i := range s.all {
		a := &s.all[i]
		if e := &s.sums.List[a.Entry]; !e.IsDue(s.step) || e.IsJoint() {
			continue
		}
		if err := a.compute(record); err != nil {
			return err
		}
		s.sums.Sum(a.Entry).Add(a.vector)
	}
	return nil
}

// startLot begins the sums of a lot. Those that are parts of groups get the groups' queries.
func (s *Statistics) startLot(step int, m *release.Mechanism) {
	s.step = step
	for i := range s.all {
		if e := &s.sums.List[s.all[i].Entry]; e.IsJoint() {
			s.sums.SetJoint(s.all[i].Entry, m.QueryOfGroup(e.Group))
		}
	}
}

// computeJoint computes the vectors of record i of the microbatch for the statistics that are parts of
// groups. Each is first shortened to its own bound, and has the norm 0 where the lot does not release it.
func (s *Statistics) computeJoint(record []load.Example, i, microbatch int, m *release.Mechanism) error {
	for k := range s.all {
		a := &s.all[k]
		e := &s.sums.List[a.Entry]
		if !e.IsJoint() {
			continue
		}
		if !e.IsDue(s.step) {
			m.SetJointNorm(a.Entry, i, 0)
			continue
		}
		if err := a.compute(record); err != nil {
			return err
		}
		if a.joint == nil {
			a.joint = make([]float64, microbatch*len(a.vector))
		}
		vector := a.joint[i*len(a.vector):][:len(a.vector)]
		m.SetJointNorm(a.Entry, i, release.ShortenTo(vector, a.vector, a.Bound))
	}
	return nil
}

// addJoint adds what computeJoint computed for record i, which has a clip factor now.
func (s *Statistics) addJoint(i int, m *release.Mechanism) {
	for k := range s.all {
		a := &s.all[k]
		if e := &s.sums.List[a.Entry]; e.IsJoint() && e.IsDue(s.step) {
			m.AddJoint(s.sums.Sum(a.Entry), e, i, a.joint[i*len(a.vector):][:len(a.vector)])
		}
	}
}

// anyJoint reports whether there are statistics that are parts of groups.
func (s *Statistics) anyJoint() bool {
	return s != nil && slices.ContainsFunc(s.all, func(a Statistic) bool { return s.sums.List[a.Entry].IsJoint() })
}

// compute computes the vector of a record.
func (a *Statistic) compute(record []load.Example) (err error) {
	defer func() {
		// The panic's value is not passed on: it may quote the record.
		if recover() != nil {
			err = fmt.Errorf("statistic %s: its function panicked on a training record; test it on public records", a.Name)
		}
	}()
	clear(a.vector)
	a.Of(a.vector, record)
	return nil
}

// TryOnConstants calls the users' functions on a record of one example of zeros, and on one whose
// features are ones: a function that reads a missing column fails before anything is spent. A
// function that gives another vector for the same record has a state, through which one record
// would change the vectors of others, and is refused. Not every state is found. output is the size of an
// example's output, and observed has the form of load.Example.Observed.
func (s *Statistics) TryOnConstants(columns []data.Column, output, cells int, observed [][]float32) error {
	for i := range s.all {
		if err := s.all[i].tryOnConstants(columns, output, cells, observed); err != nil {
			return err
		}
	}
	return nil
}

func (a *Statistic) tryOnConstants(columns []data.Column, output, cells int, observed [][]float32) error {
	var first [2][]float64
	for call := range 6 {
		value := call % 2
		e := load.Example{Output: make([]float32, output), Loss: float32(value), Cells: make([]data.CellState, cells)}
		for i := range e.Output {
			e.Output[i] = float32(value)
		}
		for _, o := range observed {
			channels := make([]float32, len(o))
			for i := range channels {
				channels[i] = float32(value)
			}
			e.Observed = append(e.Observed, channels)
		}
		for _, c := range columns {
			numbers := make([]float32, c.Size())
			for i := range numbers {
				if c.Kind == data.Feature {
					numbers[i] = float32(value)
				}
			}
			e.Columns = append(e.Columns, numbers)
		}
		clear(a.vector)
		p := recoverPanic(func() { a.Of(a.vector, []load.Example{e}) })
		if p != nil && value == 1 {
			continue // ones may be invalid
		}
		if p != nil {
			return fmt.Errorf("statistic %s: its function panicked on an example of zeros (%v); check that it reads only columns that the data have", a.Name, p)
		}
		if first[value] == nil {
			first[value] = slices.Clone(a.vector)
			continue
		}
		same := func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) }
		if !slices.EqualFunc(first[value], a.vector, same) {
			return fmt.Errorf("statistic %s: its function gives different vectors for the same record, so a record can change the vectors of others: use a function without a state", a.Name)
		}
	}
	return nil
}

// recoverPanic returns the value of a function's panic, or nil where it returns.
func recoverPanic(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}
