package release

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/clipping"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/noise"
)

// Vectors sums vectors that the host has, some of each record. The vectors are divided into
// groups, each with a clip factor and a sum of its own (McMahan et al. 2019, section 3). Within a
// group, vector v is divided by its scale s_v before the group is clipped as one vector, and what
// is released is multiplied by s_v: joint clipping.
//
// It promises what [Sum] promises for each group: with exact arithmetic, a record adds a
// vector of integers of norm at most the lattice of the group's query, checked in integers, and
// the vector depends on this record alone. A record with a number that is not finite adds nothing
// to any group.
type Vectors struct {
	clipper *clipping.Clipper
	Sums    []*Sum      // [group]
	groups  [][]float64 // [group] the vectors of one record, one after the other
	Vectors [][]float64 // [vector] its part of groups, which the caller fills
	Means   [][]float64 // [vector] the last release
	scales  []float64   // [vector]
	squared []float64   // [group]
	factors []float32   // [group]

	weight int64 // of the records that were added, in load.WeightSteps
	// leastWeight is the least denominator of a weighted mean whose denominator depends on the lot;
	// 0: the denominator is fixed.
	leastWeight int64
}

// NewVectors returns sums of vectors in the groups of a clipper. leastWeight is the least denominator of a
// weighted mean whose denominator depends on the lot; 0: the denominator is fixed.
func NewVectors(clipper *clipping.Clipper, vectors []plan.Parameter, leastWeight int64) *Vectors {
	c := &Vectors{clipper: clipper, leastWeight: leastWeight,
		Vectors: make([][]float64, len(vectors)), Means: make([][]float64, len(vectors)), scales: make([]float64, len(vectors))}
	for _, group := range clipper.Groups() {
		size := 0
		for _, m := range group.Members {
			size += vectors[m.Parameter].Shape.TotalSize()
		}
		numbers := make([]float64, size)
		c.groups = append(c.groups, numbers)
		for _, m := range group.Members {
			n := vectors[m.Parameter].Shape.TotalSize()
			c.Vectors[m.Parameter], numbers = numbers[:n:n], numbers[n:]
			c.Means[m.Parameter], c.scales[m.Parameter] = make([]float64, n), m.Scale
		}
	}
	c.Sums = make([]*Sum, len(c.groups))
	c.squared, c.factors = make([]float64, len(c.groups)), make([]float32, len(c.groups))
	return c
}

// SetQuery sets the query of a group's next sum.
func (c *Vectors) SetQuery(group int, q ledger.Query) error {
	if c.Sums[group] == nil {
		c.Sums[group] = NewSum(q, len(c.groups[group]))
	}
	if c.leastWeight == 0 {
		c.Sums[group].setQuery(q)
	} else if !c.Sums[group].setRatioQuery(q) {
		return fmt.Errorf("group %s: the noise is too large for a weighted mean with a denominator that depends on the lot: lower it, or use a fixed denominator", q.Group)
	}
	return nil
}

// Add adds the vectors of one record, which are in c.vectors, times weight/load.WeightSteps, from 0 to
// 1. It overwrites them.
func (c *Vectors) Add(weight int64) error {
	for _, vector := range c.groups {
		shrink(vector)
	}
	for v, vector := range c.Vectors {
		for i := range vector {
			vector[i] /= c.scales[v]
		}
	}
	sensitivities := c.clipper.Sensitivities()
	for g, vector := range c.groups {
		c.squared[g] = shorten(vector, sensitivities[g])
	}
	if err := c.clipper.ComputeRecordFactors(c.factors, c.squared); err != nil {
		return err
	}
	if slices.ContainsFunc(c.squared, math.IsNaN) {
		return nil // the record is excluded
	}
	for g, vector := range c.groups {
		c.Sums[g].addWeighted(vector, float64(c.factors[g]), weight)
	}
	c.weight += weight
	return nil
}

// IsUnclipped reports whether the last record's vectors were not scaled down.
func (c *Vectors) IsUnclipped() bool {
	return !slices.ContainsFunc(c.factors, func(f float32) bool { return f < 1 })
}

// shrink multiplies a vector by 2^-500 if a number is larger than 2^900, so that it can be divided by
// a scale. The vector is still longer than every bound.
func shrink(vector []float64) {
	if !slices.ContainsFunc(vector, func(x float64) bool { return math.Abs(x) > 0x1p900 }) {
		return
	}
	for i := range vector {
		vector[i] *= 0x1p-500
	}
}

// shorten returns the squared norm of a vector; NaN if a number is not finite. It first shortens a
// vector that is longer than 2^60 times the bound to that length: its clip factor would be too
// small for a float32, and its squares may overflow. Every clipping rule leaves at most the bound of
// either vector.
func shorten(vector []float64, bound float64) (squared float64) {
	unit, norm := scaledNorm(vector)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return math.NaN()
	}
	longest := math.Ldexp(bound, 60)
	if norm <= longest/unit { // always where the bound is infinite
		return min(norm*unit*norm*unit, math.MaxFloat64)
	}
	for i := range vector {
		vector[i] = vector[i] / unit / norm * longest
	}
	return longest * longest
}

// Combine passes the sums to add, which replaces them by those of all ranks.
func (c *Vectors) Combine(add func(sums []int64) error) error {
	weight := []int64{c.weight}
	if err := add(weight); err != nil {
		return err
	}
	c.weight = weight[0]
	for _, s := range c.Sums {
		if err := add(s.Integers); err != nil {
			return err
		}
	}
	return nil
}

// Release writes the sums with their noise, times scale, to c.means. The ledger on disk must
// contain the queries.
func (c *Vectors) Release(source *noise.Source, step int, scale float64) error {
	for g, sum := range c.Sums {
		if c.leastWeight > 0 {
			sum.divideByWeight(c.weight, c.leastWeight)
		}
		if err := sum.Release(c.groups[g], source, stream(step, g)); err != nil {
			return err
		}
	}
	c.weight = 0
	for v, vector := range c.Vectors {
		for i, x := range vector {
			c.Means[v][i] = x * c.scales[v] * scale
		}
	}
	return nil
}
