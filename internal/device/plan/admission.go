package plan

import (
	"math"
	"sync/atomic"

	"github.com/dptrain/dptrain/internal/device/lattice"
)

// Admission rounds and bounds contributions for all sums of an exact program on the host.
//
// Guarantee: for every record and group, the integers that the record adds to the sums of
// the group's parameters have a norm of at most Bound, or the record's element of the group's Bounds if
// that is set and smaller. Every part of a contribution takes its squared norm, determined in integers, from the record's budget
// before it is added. A part that the rest of the budget does not cover is not added.
// With L1, the integers have an ℓ₁ norm of at most Bound: every part is built and takes its ℓ₁ norm
// from a budget of Bound.
// What a record adds is a function of its own operands, factors and random word.
//
// Clip factors leave room for the errors of rounding, 1-(1-1/256)² of Bound²: see clipping.LatticeAccuracy.
// Rows of a product that are rounded to 16 bits have larger errors than a gradient that is built. So
// that no part takes the room of the parts after it, a record's rows in a group may take five eighths of
// the room, by RowErrors. The gradients of a record beyond that are built.
type Admission struct {
	*Contributions
	L1               bool
	budgets          [][]budget // [group][record]
	reduced, omitted atomic.Int64
}

// budget is what parts of a record may still take.
type budget struct {
	norm   int64 // Bound², with L1 Bound, less what was taken
	errors int64 // what RowErrors may still add up to
}

// Room is what clip factors leave for errors, and errorRoom the part of rounded rows, as shares of
// Bound².
const (
	Room      = 1.0 / 128
	errorRoom = Room * 5 / 8
)

// RowErrors estimates what the rounding of rows adds to the squared norm of Ĝ = Σ_t â_t ⊗ δ̂_t. The errors of
// numbers are independent, with a mean square of 1/6: f·(1−f) for a uniform fraction f. So the error e of
// Ĝ has the expected squared norm E = (Σ_t In·‖δ̂_t‖² + Out·‖â_t‖²)/6, and 2⟨Ĝ, e⟩ has the variance
// V ≤ 4‖Ĝ‖²·(‖Â‖² + ‖Δ̂‖²)/6. The estimate is E + V/W. With k = 3 and W = Room·Bound²/k², sums over parts satisfy
//
//	ΣE + k·√ΣV ≤ Σ(E + V/W) + k²W/4,
//
// where the last term is a quarter of the room. A number that overlap rows share counts as often.
type RowErrors struct{ A, Delta, Both float64 }

// NewRowErrors returns the estimate for rows of a product of these widths.
func NewRowErrors(in, out int, overlap float64) RowErrors {
	const perSquare, w = 6, Room * Bound * Bound / 9
	return RowErrors{float64(out) / perSquare, float64(in) * overlap / perSquare, 4 * overlap / (perSquare * w)}
}

// Of returns the estimate for ‖Â‖², ‖Δ̂‖² and ‖Ĝ‖². It is the same on every device: no operations are
// fused, and integers have one sum in every order.
func (e RowErrors) Of(a, delta, product int64) int64 {
	both := float64(e.Both*float64(product)) * float64(a+delta)
	apart := float64(e.A*float64(a)) + float64(e.Delta*float64(delta))
	return int64(min(float64(both)+float64(apart), 2*Bound*Bound))
}

// Begin gives every record of a microbatch its budget.
func (a *Admission) Begin() {
	for _, g := range a.Group {
		for len(a.budgets) <= g { // in the first microbatch only
			a.budgets = append(a.budgets, make([]budget, len(a.Seeds)))
		}
	}
	for g, budgets := range a.budgets {
		for r := range budgets {
			whole := a.whole(g, r)
			budgets[r] = budget{whole, int64(float64(whole) * errorRoom)}
		}
	}
}

// whole returns the budget of record r in a group before any part takes from it.
func (a *Admission) whole(group, r int) int64 {
	switch {
	case a.L1:
		return Bound
	case a.Bounds != nil && a.Bounds[group] != nil:
		bound := min(a.Bounds[group][r], Bound)
		return bound * bound
	}
	return Bound * Bound
}

// End adds the counts of reduced and omitted parts to those of Contributions.
func (a *Admission) End() {
	a.Reduced += int(a.reduced.Swap(0))
	a.Omitted += int(a.omitted.Swap(0))
}

// Taken returns the amount that record r took of its budget in a group since Begin.
func (a *Admission) Taken(group, r int) int64 { return a.whole(group, r) - a.budgets[group][r].norm }

// Contribution is one instruction that adds contributions to a parameter.
type Contribution struct {
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
func (p *Contribution) Choose(r int, try func(Rounding) (squares int64, ok bool)) Rounding {
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
func (p *Contribution) ChooseSmaller(r int, how Rounding, squares int64, ok bool, try func(Rounding) (squares int64, ok bool)) Rounding {
	shrink := 0.5
	if ok {
		fits := float64(p.budget(r).norm) / float64(squares)
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
func (p *Contribution) Rounding(r int) Rounding {
	return p.rounding(r, 0, float64(p.Factors[r])*p.Steps[p.Parameter])
}

// rounding is the rounding with a scale, in the first or second attempt. It is zero if the
// scale is not a positive number.
func (p *Contribution) rounding(r, attempt int, scale float64) Rounding {
	if !(scale > 0) {
		return Rounding{}
	}
	return Rounding{scale, uint64(lattice.RowKey(p.Seeds[p.First+r], p.Number, attempt))}
}

func (p *Contribution) budget(r int) *budget { return &p.budgets[p.Group[p.Parameter]][p.First+r] }

// Take takes a squared norm from the budget of record r, if it is known and the budget covers
// it.
func (p *Contribution) Take(r int, squares int64, ok bool) bool {
	budget := p.budget(r)
	if !ok || squares > budget.norm {
		return false
	}
	budget.norm -= squares
	return true
}

// TakeRows is Take for rounded rows with an estimate of their errors, which the record's room must cover too.
func (p *Contribution) TakeRows(r int, squares, errors int64, ok bool) bool {
	budget := p.budget(r)
	if errors > budget.errors || !p.Take(r, squares, ok) {
		return false
	}
	budget.errors -= errors
	return true
}

// BuiltBlock is how many elements of a built gradient share a key.
const BuiltBlock = 4096

// Round rounds a gradient. It returns what the integers take from a budget: their squared norm, with
// L1 their norm. If it is not ok, they are undefined.
func (p *Contribution) Round(ints []int32, row []float32, how Rounding) (taken int64, ok bool) {
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
