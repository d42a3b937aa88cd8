package data

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// concat contains the examples of several sets in sequence.
type concat struct {
	parts   []Set
	columns []Column
	sizes   []int
	ends    []int // parts[i] contains the examples before ends[i]
	users   []int32
	blank   []bool
	weights []float64
}

// Concat returns the set of all examples of the parts, in sequence. The parts must
// have equal columns; the result has the element types of the first part. A user's number
// means the same user in every part. If a part does not know its users, each of its
// examples gets a user of its own. If a part has no weights, its examples have weight 1.
func Concat(parts ...Set) (Set, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("there are no sets to join; give at least one")
	}
	c := &concat{parts: slices.Clone(parts), columns: parts[0].Columns()}
	c.sizes = sizesOf(c.columns)
	total, hasUsers, hasBlank, hasWeights := 0, false, false, false
	for i, p := range parts {
		if !slices.EqualFunc(p.Columns(), c.columns, Column.equal) {
			return nil, fmt.Errorf("part %d has different columns from part 0; all sets to join need equal columns", i)
		}
		users, err := ValidatedUsers(p)
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", i, err)
		}
		blank, err := ValidatedBlank(p)
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", i, err)
		}
		weights, err := ValidatedWeights(p)
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", i, err)
		}
		hasBlank, hasWeights = hasBlank || blank != nil, hasWeights || weights != nil
		total += p.Len()
		c.ends = append(c.ends, total)
		hasUsers = hasUsers || users != nil
	}
	if hasUsers {
		var err error
		if c.users, err = joinUsers(parts, total); err != nil {
			return nil, err
		}
	}
	if hasBlank {
		for _, p := range parts {
			blank := Blank(p)
			if blank == nil {
				blank = make([]bool, p.Len())
			}
			c.blank = append(c.blank, blank...)
		}
	}
	if hasWeights {
		for _, p := range parts {
			weights := Weights(p)
			if weights == nil {
				weights = slices.Repeat([]float64{1}, p.Len())
			}
			c.weights = append(c.weights, weights...)
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
			return nil, fmt.Errorf("the joined sets have users up to number %d, and there are no numbers left for %d more; number users from 0 without gaps", next-1, p.Len())
		}
		for range p.Len() {
			users = append(users, int32(next))
			next++
		}
	}
	return users, nil
}

func (c *concat) Len() int           { return c.ends[len(c.ends)-1] }
func (c *concat) Columns() []Column  { return c.columns }
func (c *concat) Users() []int32     { return c.users }
func (c *concat) Blank() []bool      { return c.blank }
func (c *concat) Weights() []float64 { return c.weights }

func (c *concat) Read(dst [][]float32, rows []int) error {
	if err := checkRead(c.columns, c.sizes, c.Len(), dst, rows); err != nil {
		return err
	}
	t := readBuffersPool.Get().(*readBuffers)
	defer readBuffersPool.Put(t)
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
