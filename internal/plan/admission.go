package plan

import (
	"math"
	"sync/atomic"

	"github.com/dptrain/dptrain/internal/lattice"
)

// Admission rounds and bounds contributions for all sums of an exact program on the host.
//
// Guarantee: for every record and group, the integers that the record adds to the sums of
// the group's parameters have a norm of at most Bound, or the record's element of Bounds if that is
// set and smaller. Every part of a contribution takes its squared norm, determined in integers, from the record's budget
// before it is added. A part that the rest of the budget does not cover is not added.
// With L1, the integers have an ℓ₁ norm of at most Bound: every part is built and takes its ℓ₁ norm
// from a budget of Bound.
// What a record adds is a function of its own operands, factors and random word.
type Admission struct {
	*Contributions
	L1               bool
	budgets          [][]int64 // [group][record]: Bound², with L1 Bound, less what was taken
	reduced, omitted atomic.Int64
}

// Begin gives every record of a microbatch its budget.
func (a *Admission) Begin() {
	for _, g := range a.Group {
		for len(a.budgets) <= g { // in the first microbatch only
			a.budgets = append(a.budgets, make([]int64, len(a.Seeds)))
		}
	}
	for _, budget := range a.budgets {
		for r := range budget {
			budget[r] = a.whole(r)
		}
	}
}

// whole returns the budget of record r before any part takes from it.
func (a *Admission) whole(r int) int64 {
	switch {
	case a.L1:
		return Bound
	case a.Bounds != nil:
		return min(a.Bounds[r], Bound) * min(a.Bounds[r], Bound)
	}
	return Bound * Bound
}

// End adds the counts of reduced and omitted parts to those of Contributions.
func (a *Admission) End() {
	a.Reduced += int(a.reduced.Swap(0))
	a.Omitted += int(a.omitted.Swap(0))
}

// Taken returns the amount that record r took of its budget in a group since Begin.
func (a *Admission) Taken(group, r int) int64 { return a.whole(r) - a.budgets[group][r] }

// Part is one instruction that adds contributions to a parameter.
type Part struct {
	*Admission
	Parameter int
	Number    int       // of the use of a parameter that the part belongs to
	First     int       // the record of Factors[0]
	Factors   []float32 // clip factors
}

// Rounding determines how a record's part is rounded to integers. With scale 0 the record
// adds nothing.
type Rounding struct {
	Scale float64 // lattice steps in a unit of the gradient, clip factor included
	Seed  uint64
}

// Choose returns the rounding of the part of record r, and takes its squared norm, with L1 its
// norm, from the record's budget. try computes what a rounding takes; it is not ok if the
// integers are out of range.
func (p *Part) Choose(r int, try func(Rounding) (squares int64, ok bool)) Rounding {
	how := p.Rounding(r)
	if how.Scale == 0 {
		return how
	}
	squares, ok := try(how)
	if p.Take(r, squares, ok) {
		return how
	}
	return p.ChooseSmaller(r, how, squares, ok, try)
}

// ChooseSmaller is Choose after a rounding that did not fit the budget.
func (p *Part) ChooseSmaller(r int, how Rounding, squares int64, ok bool, try func(Rounding) (squares int64, ok bool)) Rounding {
	shrink := 0.5
	if ok {
		fits := float64(*p.budget(r)) / float64(squares)
		if !p.L1 {
			fits = math.Sqrt(fits)
		}
		shrink = min(shrink, fits)
	}
	if how = p.rounding(r, 1, how.Scale*shrink); how.Scale > 0 {
		if squares, ok = try(how); p.Take(r, squares, ok) {
			p.reduced.Add(1)
			return how
		}
	}
	p.omitted.Add(1)
	return Rounding{}
}

// Rounding is the first rounding of the part of record r.
func (p *Part) Rounding(r int) Rounding {
	return p.rounding(r, 0, float64(p.Factors[r])*p.Steps[p.Parameter])
}

// rounding is the rounding with a scale, in the first or second attempt. It is zero if the
// scale is not a positive number.
func (p *Part) rounding(r, attempt int, scale float64) Rounding {
	if !(scale > 0) {
		return Rounding{}
	}
	return Rounding{scale, uint64(lattice.RowKey(p.Seeds[p.First+r], p.Number, attempt))}
}

func (p *Part) budget(r int) *int64 { return &p.budgets[p.Group[p.Parameter]][p.First+r] }

// Take takes a squared norm from the budget of record r, if it is known and the budget covers
// it.
func (p *Part) Take(r int, squares int64, ok bool) bool {
	budget := p.budget(r)
	if !ok || squares > *budget {
		return false
	}
	*budget -= squares
	return true
}

// BuiltBlock is how many elements of a built gradient share a key.
const BuiltBlock = 4096

// Round rounds a gradient. It returns what the integers take from a budget: their squared norm, with
// L1 their norm. If it is not ok, they are undefined.
func (p *Part) Round(ints []int32, row []float32, how Rounding) (taken int64, ok bool) {
	for b := 0; b*BuiltBlock < len(row); b++ {
		from, to := b*BuiltBlock, min(len(row), (b+1)*BuiltBlock)
		squares, ok := lattice.Round(ints[from:to], row[from:to], float32(how.Scale), lattice.RowKey(how.Seed, 0, b))
		if !ok {
			return 0, false
		}
		if !p.L1 {
			if taken += squares; taken > Bound*Bound {
				return 0, false
			}
			continue
		}
		for _, v := range ints[from:to] {
			taken += max(int64(v), -int64(v))
		}
	}
	return taken, true
}
