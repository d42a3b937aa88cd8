package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/simd"
)

// mixed builds one record's gradient at a time, all uses added up, and squares
// it. It does so in float64: where uses cancel, float32 would find far less than the
// norm. Several uses, or several places of a use that are one element of the parameter, are
// summed one after the other in float32, each for all records of a microbatch, and what its
// roundings may leave of them, and of the other records meanwhile, is added; plans have
// another way for a single one.
func (c compiler) mixed(s op.Mixed, k call) func() {
	if step := c.tied(s, k); step != nil {
		return step
	}
	type part struct {
		use  exactUse
		at   *op.Map
		size int
		meet float64 // the root of how many places of it are one element of the parameter
	}
	parts := make([]part, len(*s.Parts))
	largest, cost, terms := 0, s.Size, 0
	for i, p := range *s.Parts {
		from, to := s.Inputs(i)
		u, ok := c.exact(p.Form, s.Records, k.in[from:to])
		if !ok {
			return nil
		}
		meet := p.At.Meeting(s.Size)
		parts[i] = part{u, p.At, p.Form.Size(), math.Sqrt(float64(meet))}
		largest = max(largest, p.Form.Size())
		cost += u.cost
		terms += u.terms + meet
	}
	c.reserve(0, s.Size+largest)
	each := roundoff
	if len(parts) > 1 || parts[0].meet > 1 {
		each = singleRoundoff
	}
	relative := float64(terms+8) * each
	out := k.out
	return c.over(s.Records, cost, func(from, to int, w *worker) {
		memory := w.doubles(s.Size + largest)
		all := memory[:s.Size]
		for r := from; r < to; r++ {
			clear(all)
			var length float64
			for _, p := range parts {
				length += p.meet * p.use.length(r)
				if p.at == nil {
					p.use.add(all, r, w)
					continue
				}
				one := memory[s.Size:][:p.size]
				clear(one)
				p.use.add(one, r, w)
				p.at.Scatter(all, one)
			}
			var total float64
			for _, v := range all {
				total += v * v
			}
			norm := math.Sqrt(total) + relative*length
			out[r] = float32(norm*norm + k.operands(r, s.Records))
		}
	})
}

// exactUse adds one record's gradient up in float64.
type exactUse struct {
	add    func(dst []float64, r int, w *worker)
	length func(r int) float64 // at least the norm of the sum of the terms' sizes
	terms  int                 // roundings in one place of what a record adds, those of others' rows among them
	cost   int                 // of one record
}

// exact is that of a form; ok tells whether there is one.
func (c compiler) exact(form op.Form, records int, in [][]float32) (u exactUse, ok bool) {
	delta := in[len(in)-1]
	nd := len(delta) / records
	na := len(in[0]) / records
	a := in[0]
	// Adding up n terms costs at most n+8 roundings of the sum of their sizes, and that is
	// at most √repeats·‖A‖‖Δ‖ where each element of A meets that many rows of Δ.
	both := func(repeats int) func(int) float64 {
		scale := math.Sqrt(float64(repeats))
		return func(r int) float64 {
			return scale * math.Sqrt(simd.SumSquares(a[r*na:(r+1)*na])*simd.SumSquares(delta[r*nd:(r+1)*nd]))
		}
	}
	// Of n numbers, of which times neighbours are one element of Δ.
	alone := func(n, times int) func(int) float64 {
		scale := math.Sqrt(float64(n) * float64(times))
		return func(r int) float64 { return scale * math.Sqrt(simd.SumSquares(delta[r*nd:(r+1)*nd])) }
	}
	switch f := form.(type) {
	case op.Product:
		rows := nd / f.Out
		return exactUse{func(dst []float64, r int, _ *worker) {
			for t := range rows {
				d := delta[r*nd+t*f.Out:][:f.Out]
				for i, x := range a[r*na+t*f.In:][:f.In] {
					x := float64(x)
					for j, v := range d {
						dst[i*f.Out+j] += x * float64(v)
					}
				}
			}
		}, both(1), inChains(rows) + chains(rows*records), rows * f.In * f.Out}, true
	case op.ConvWeight:
		v := newConvolution(f)
		c.reserve(v.scratch(), 0)
		pictures := nd / (f.O * v.area)
		return exactUse{func(dst []float64, r int, w *worker) {
			for n := r * pictures; n < (r+1)*pictures; n++ {
				var columns []float32
				for o := range f.O {
					if o%v.og == 0 {
						columns = v.columns(v.picture(a, n), o/v.og, w)
					}
					d := v.result(delta, n)[o*v.area:][:v.area]
					for t := range v.taps {
						dst[o*v.taps+t] += simd.Dot(columns[t*v.area:][:v.area], d)
					}
				}
			}
		}, both(f.KernelH * f.KernelW), c.convRoundings(v, pictures) + c.convMeanwhile(v, pictures*records), pictures * v.area * f.Size()}, true
	case op.Shift:
		rows := nd / (f.Channels * f.Inner)
		return exactUse{func(dst []float64, r int, _ *worker) {
			for t := range rows * f.Channels {
				dst[t%f.Channels] += simd.Sum(delta[r*nd+t*f.Inner:][:f.Inner])
			}
		}, alone(rows*f.Inner, 1), rows * (f.Inner + records), nd}, true
	case op.Scale:
		rows := nd / (f.Channels * f.Inner)
		return exactUse{func(dst []float64, r int, _ *worker) {
			for t := range rows * f.Channels {
				at := r*nd + t*f.Inner
				dst[t%f.Channels] += simd.Dot(a[at:][:f.Inner], delta[at:][:f.Inner])
			}
		}, both(1), rows * (f.Inner + records), nd}, true
	case op.Gather:
		return exactUse{func(dst []float64, r int, _ *worker) {
			for t := r * na; t < (r+1)*na; t++ {
				row, ok := entry(a[t], f.Vocabulary)
				if !ok {
					continue
				}
				d := dst[row*f.Dim:][:f.Dim]
				for j, v := range delta[t/f.Bag*f.Dim:][:f.Dim] {
					d[j] += float64(v)
				}
			}
		}, alone(na, f.Bag), na * (1 + records), f.Size() + nd}, true
	}
	return u, false
}
