package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/device/cpu/gram"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// lowerMultiUseNorms computes the norm of the sum of a parameter's uses. It builds one
// record's gradient at a time and squares it, in float64: where uses cancel, a gradient in
// float32 could be far shorter than the exact one.
//
// The clipped sum adds several uses, or several places of a use that are one element of
// the parameter, one after the other in float32, each for all records of the microbatch.
// The norm includes a bound on the rounding errors of this record and of the other
// records in between. An exact program adds the integers of each record by themselves, so no
// other records are in between. A single use has its gradients built another way, see package plan.
func lowerMultiUseNorms(l *lowering, s op.MultiUseNorms, k call) func() {
	if !l.program.L1 {
		if step := lowerTiedNorms(l, s, k); step != nil {
			return step
		}
	}
	m := newMultiUse(l, s, k.in)
	rounding := s.SumRoundoff()
	relative := float64(m.terms+8) * rounding
	out := k.out
	return l.pool.forRanges(s.Records, m.cost, func(from, to int, w *worker) {
		for r := from; r < to; r++ {
			gradient, length := m.build(r, w)
			var total float64
			if l.program.L1 {
				for _, v := range gradient {
					total += math.Abs(v)
				}
				out[r] = float32(total + math.Sqrt(k.operandShare(r, s.Records)))
				continue
			}
			for _, v := range gradient {
				total += v * v
			}
			norm := math.Sqrt(total) + relative*length
			out[r] = float32(norm*norm + k.operandShare(r, s.Records))
		}
	})
}

// multiUse builds records' gradients of a parameter that is used in several ways.
type multiUse struct {
	parts         []usePart
	size, largest int // elements of the parameter, and of the largest use
	cost, terms   int // of one record; roundings of one element in the clipped sum
}

type usePart struct {
	use     exactUse
	at      *op.Map
	size    int
	overlap float64 // root of the number of the use's places that are one element of the parameter
}

func newMultiUse(l *lowering, s op.MultiUseNorms, in [][]float32) *multiUse {
	m := &multiUse{size: s.Size, cost: s.Size}
	for i, p := range *s.Uses {
		from, to := s.InputRange(i)
		u := newExactUse(l, p.Form, s.Records, in[from:to])
		places := p.Map.MaxMultiplicity(s.Size)
		m.parts = append(m.parts, usePart{u, p.Map, p.Form.Size(), math.Sqrt(float64(places))})
		m.largest = max(m.largest, p.Form.Size())
		m.cost += u.cost
		m.terms += u.terms + places
	}
	l.pool.reserve(0, m.size+m.largest)
	return m
}

// build returns the gradient of record r, in the worker's memory, and an upper bound on the
// norm of the sum of its terms' absolute values.
func (m *multiUse) build(r int, w *worker) (gradient []float64, length float64) {
	memory := w.doubles(m.size + m.largest)
	gradient = memory[:m.size]
	clear(gradient)
	for _, p := range m.parts {
		length += p.overlap * p.use.length(r)
		if p.at == nil {
			p.use.add(gradient, r, w)
			continue
		}
		one := memory[m.size:][:p.size]
		clear(one)
		p.use.add(one, r, w)
		p.at.Scatter(gradient, one)
	}
	return gradient, length
}

// lowerTiedNorms computes the norms of a table that is looked up and also multiplied with,
// as an embedding tied to the last layer is. It returns nil for other uses. With P the
// gradient of the product and G that of the lookup,
//
//	‖P + G‖² = ‖P‖² + ‖G‖² + 2⟨P, G⟩
//
// ‖P‖² comes from Gram matrices, ‖G‖² from grouped indices, and ⟨P, G⟩ from row i of P for
// each index i: Σ_s Σ_t δ_t[i_s]·⟨a_t, ε_s⟩. The gradient of the table is never built.
//
// The clipped sum adds P of all records of a microbatch before or after G of any record.
// The norm includes what lookups of other records round away of P, and what their products
// round away of G.
func lowerTiedNorms(l *lowering, s op.MultiUseNorms, k call) func() {
	t, ok := s.TiedTable()
	if !ok {
		return nil
	}
	a, delta := k.in[t.RowsByDim], k.in[t.RowsByEntry]
	index, eps := k.in[t.Index], k.in[t.Delta]
	d, v := t.Table.Dim, t.Table.Vocabulary
	rows, lookups := len(a)/d/s.Records, len(index)/s.Records
	scratch := gram.Scratch(rows)
	l.pool.reserve(scratch, d)
	l.pool.reserveGroups(lookups)
	together := l.addedTogether(s.Records)
	others := float64(countChains(rows*together) + lookups*together)
	out := k.out
	return l.pool.forRanges(s.Records, rows*rows*(d+v)/16+rows*lookups*d/4, func(from, to int, w *worker) {
		for r := from; r < to; r++ {
			a, delta := a[r*rows*d:(r+1)*rows*d], delta[r*rows*v:(r+1)*rows*v]
			index, eps := index[r*lookups:(r+1)*lookups], eps[r*lookups*d:(r+1)*lookups*d]
			m := gram.New(w.floats(scratch), rows)
			inputs, signals := gram.ContiguousRows(a, d), gram.ContiguousRows(delta, v)
			m.Multiply(m.A, inputs)
			m.Multiply(m.D, signals)
			groups := w.groups.sized(lookups)
			groups.find(index, v)
			rest, _ := groups.squared(eps, t.Table, w) // ‖G‖² + 2⟨P, G⟩
			norms := math.Sqrt(rest)                   // ‖P‖ + ‖G‖
			var length float64
			for t := range rows {
				length += math.Sqrt(simd.SumSquares(a[t*d:(t+1)*d]) * simd.SumSquares(delta[t*v:(t+1)*v]))
			}
			for s, i := range index {
				row, ok := parseIndex(i, v)
				if !ok {
					continue
				}
				e := eps[s*d : (s+1)*d]
				length += math.Sqrt(simd.SumSquares(e))
				for t := range rows {
					rest += 2 * float64(delta[t*v+row]) * simd.Dot(a[t*d:(t+1)*d], e)
				}
			}
			restRounding := gram.CancellationError(length, d+v, rows+lookups)
			total, rounding, _ := m.Inner(d, v)
			if gram.Inexact(total+rest, rounding+restRounding) {
				total, rounding, _ = gram.InnerFloat64(inputs, signals, rows)
			}
			norms += math.Sqrt(max(total, 0) + rounding)
			sumRounding := float64(chainedRoundings(rows+lookups))*length + others*norms
			out[r] = float32(addRounding(max(total+rest, 0)+rounding+restRounding, 1, sumRounding) + k.operandShare(r, s.Records))
		}
	})
}

// addedTogether returns how many of a microbatch's records are added in floating point.
func (l *lowering) addedTogether(records int) int {
	if l.program.Exact {
		return 1
	}
	return records
}

// exactUse adds one record's gradient of one use in float64.
type exactUse struct {
	add    func(dst []float64, r int, w *worker)
	length func(r int) float64 // upper bound on the norm of the sum of the terms' absolute values
	terms  int                 // roundings of one element in the clipped sum, other records' rows included
	cost   int                 // of one record
}

// newExactUse makes the exact use of a form from its operands.
func newExactUse(l *lowering, form op.Form, records int, in [][]float32) exactUse {
	a, delta := in[0], in[len(in)-1]
	x := exactOperands{a, delta, len(a) / records, len(delta) / records, l.addedTogether(records)}
	switch f := form.(type) {
	case op.Product:
		return x.product(f)
	case op.ConvWeight:
		return x.convolution(l, f)
	case op.Shift:
		return x.shift(f)
	case op.Scale:
		return x.scale(f)
	}
	return x.gather(form.(op.Gather))
}

// exactOperands are the operands of a form. A record has na numbers of a and nd of delta. The number
// together is that of the records that are added in floating point.
type exactOperands struct {
	a, delta         []float32
	na, nd, together int
}

// lengthOfProduct bounds the length of sums of products of A and Δ. Adding n terms costs at
// most n+8 roundings of the sum of their absolute values, and that sum is at most
// √repeats·‖A‖‖Δ‖ if each element of A multiplies at most repeats rows of Δ.
func (x exactOperands) lengthOfProduct(repeats int) func(int) float64 {
	scale := math.Sqrt(float64(repeats))
	return func(r int) float64 {
		return scale * math.Sqrt(simd.SumSquares(x.a[r*x.na:(r+1)*x.na])*simd.SumSquares(x.delta[r*x.nd:(r+1)*x.nd]))
	}
}

// lengthOfSum bounds the length of sums of n numbers, where each element of Δ occurs the
// given number of times in a row.
func (x exactOperands) lengthOfSum(n, times int) func(int) float64 {
	scale := math.Sqrt(float64(n) * float64(times))
	return func(r int) float64 { return scale * math.Sqrt(simd.SumSquares(x.delta[r*x.nd:(r+1)*x.nd])) }
}

func (x exactOperands) product(f op.Product) exactUse {
	rows := x.nd / f.Out
	add := func(dst []float64, r int, _ *worker) {
		for t := range rows {
			d := x.delta[r*x.nd+t*f.Out:][:f.Out]
			for i, v := range x.a[r*x.na+t*f.In:][:f.In] {
				v := float64(v)
				for j, e := range d {
					dst[i*f.Out+j] += v * float64(e)
				}
			}
		}
	}
	return exactUse{add, x.lengthOfProduct(1), chainedRoundings(rows) + countChains(rows*x.together), rows * f.In * f.Out}
}

func (x exactOperands) convolution(l *lowering, f op.ConvWeight) exactUse {
	v := newConvolution(f)
	l.pool.reserve(v.scratch(), 0)
	pictures := x.nd / (f.O * v.area)
	add := func(dst []float64, r int, w *worker) {
		for n := r * pictures; n < (r+1)*pictures; n++ {
			var columns []float32
			for o := range f.O {
				if o%v.og == 0 {
					columns = v.columns(v.picture(x.a, n), o/v.og, w)
				}
				d := v.result(x.delta, n)[o*v.area:][:v.area]
				for t := range v.taps {
					dst[o*v.taps+t] += simd.Dot(columns[t*v.area:][:v.area], d)
				}
			}
		}
	}
	terms := convSumRoundings(l, v, pictures) + convSumCrossRoundings(l, v, pictures*x.together)
	return exactUse{add, x.lengthOfProduct(f.KernelH * f.KernelW), terms, pictures * v.area * f.Size()}
}

func (x exactOperands) shift(f op.Shift) exactUse {
	rows := x.nd / (f.Channels * f.Inner)
	add := func(dst []float64, r int, _ *worker) {
		for t := range rows * f.Channels {
			dst[t%f.Channels] += simd.Sum(x.delta[r*x.nd+t*f.Inner:][:f.Inner])
		}
	}
	return exactUse{add, x.lengthOfSum(rows*f.Inner, 1), rows * (f.Inner + x.together), x.nd}
}

func (x exactOperands) scale(f op.Scale) exactUse {
	rows := x.nd / (f.Channels * f.Inner)
	add := func(dst []float64, r int, _ *worker) {
		for t := range rows * f.Channels {
			at := r*x.nd + t*f.Inner
			dst[t%f.Channels] += simd.Dot(x.a[at:][:f.Inner], x.delta[at:][:f.Inner])
		}
	}
	return exactUse{add, x.lengthOfProduct(1), rows * (f.Inner + x.together), x.nd}
}

func (x exactOperands) gather(f op.Gather) exactUse {
	add := func(dst []float64, r int, _ *worker) {
		for t := r * x.na; t < (r+1)*x.na; t++ {
			row, ok := parseIndex(x.a[t], f.Vocabulary)
			if !ok {
				continue
			}
			d := dst[row*f.Dim:][:f.Dim]
			for j, v := range x.delta[t/f.Bag*f.Dim:][:f.Dim] {
				d[j] += float64(v)
			}
		}
	}
	return exactUse{add, x.lengthOfSum(x.na, f.Bag), x.na * (1 + x.together), f.Size() + x.nd}
}
