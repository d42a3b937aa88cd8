package data

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"
)

// scratch is what a composed set needs to pass a Read on; it is pooled so that
// Read neither allocates nor locks.
type scratch struct {
	rows []int
	dst  [][]float32
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// subset is some of another set's examples, in an order of its own.
type subset struct {
	of    Set
	rows  []int
	users []int32
}

// Subset is the set of s's examples rows, in that order. An example may be named
// more than once; it is then several examples, each protected as one, so a
// person's copies need an owner in common.
func Subset(s Set, rows []int) (Set, error) {
	for i, r := range rows {
		if r < 0 || r >= s.Len() {
			return nil, fmt.Errorf("subset: entry %d names an example that a set of %d has not", i, s.Len())
		}
	}
	sub := &subset{of: s, rows: slices.Clone(rows)}
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
	return sub, nil
}

func (s *subset) Len() int          { return len(s.rows) }
func (s *subset) Columns() []Column { return s.of.Columns() }
func (s *subset) Users() []int32    { return s.users }

func (s *subset) Read(dst [][]float32, rows []int) error {
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	t.rows = t.rows[:0]
	for _, r := range rows {
		if r < 0 || r >= len(s.rows) {
			return fmt.Errorf("there is no example %d; the set has %d, numbered from 0", r, len(s.rows))
		}
		t.rows = append(t.rows, s.rows[r])
	}
	return s.of.Read(dst, t.rows)
}

// concat is several sets, one after the other.
type concat struct {
	parts   []Set
	columns []Column
	sizes   []int
	ends    []int // parts[i] holds the examples before ends[i]
	users   []int32
}

// Concat joins sets of equal columns, one after the other; what their features' Elements
// were the first one says. An owner's number
// means the same owner in every part; the examples of a part that knows no
// owners get one each, shared with nobody.
func Concat(parts ...Set) (Set, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("nothing to join; give at least one set")
	}
	c := &concat{parts: slices.Clone(parts), columns: parts[0].Columns()}
	c.sizes = sizesOf(c.columns)
	total, grouped := 0, false
	for i, p := range parts {
		if !slices.EqualFunc(p.Columns(), c.columns, Column.equal) {
			return nil, fmt.Errorf("part %d has other columns than part 0; only sets of equal columns can be joined", i)
		}
		users, err := ValidatedUsers(p)
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", i, err)
		}
		total += p.Len()
		c.ends = append(c.ends, total)
		grouped = grouped || users != nil
	}
	if grouped {
		var err error
		if c.users, err = joinUsers(parts, total); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func joinUsers(parts []Set, total int) ([]int32, error) {
	next := 0
	for _, p := range parts {
		for _, u := range Users(p) {
			next = max(next, int(u)+1)
		}
	}
	users := make([]int32, 0, total)
	for _, p := range parts {
		if known := Users(p); known != nil {
			users = append(users, known...)
			continue
		}
		if next+p.Len() > math.MaxInt32 {
			return nil, fmt.Errorf("joined sets have owners up to number %d, and no numbers are left for %d more; number owners from 0 without gaps", next-1, p.Len())
		}
		for range p.Len() {
			users = append(users, int32(next))
			next++
		}
	}
	return users, nil
}

func (c *concat) Len() int          { return c.ends[len(c.ends)-1] }
func (c *concat) Columns() []Column { return c.columns }
func (c *concat) Users() []int32    { return c.users }

func (c *concat) Read(dst [][]float32, rows []int) error {
	if err := checkRead(c.columns, c.sizes, c.Len(), dst, rows); err != nil {
		return err
	}
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	for done := 0; done < len(rows); {
		part := sort.SearchInts(c.ends, rows[done]+1)
		begin := c.ends[part] - c.parts[part].Len()
		t.rows = t.rows[:0]
		for _, r := range rows[done:] {
			if r < begin || r >= c.ends[part] {
				break
			}
			t.rows = append(t.rows, r-begin)
		}
		t.dst = t.dst[:0]
		for k, size := range c.sizes {
			t.dst = append(t.dst, dst[k][done*size:(done+len(t.rows))*size])
		}
		if err := c.parts[part].Read(t.dst, t.rows); err != nil {
			return err
		}
		done += len(t.rows)
	}
	return nil
}
