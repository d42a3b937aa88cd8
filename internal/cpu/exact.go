package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/simd"
)

// exactUse adds one record's gradient up in float64.
type exactUse struct {
	add    func(dst []float64, r int, w *worker)
	length func(r int) float64 // at least the norm of the sum of the terms' sizes
	terms  int                 // roundings in one place of what a record adds, those of others' rows among them
	cost   int                 // of one record
}

// exact is that of a form.
func (c compiler) exact(form op.Form, records int, in [][]float32) exactUse {
	a, delta := in[0], in[len(in)-1]
	x := exactOperands{a, delta, len(a) / records, len(delta) / records, records}
	switch f := form.(type) {
	case op.Product:
		return x.product(f)
	case op.ConvWeight:
		return x.convolution(c, f)
	case op.Shift:
		return x.shift(f)
	case op.Scale:
		return x.scale(f)
	}
	return x.gather(form.(op.Gather))
}

// exactOperands are what a form is made of: of each record na and nd numbers.
type exactOperands struct {
	a, delta        []float32
	na, nd, records int
}

// both bounds the length of sums of A times Δ. Adding up n terms costs at most n+8
// roundings of the sum of their sizes, and that is at most √repeats·‖A‖‖Δ‖ where each
// element of A meets that many rows of Δ.
func (x exactOperands) both(repeats int) func(int) float64 {
	scale := math.Sqrt(float64(repeats))
	return func(r int) float64 {
		return scale * math.Sqrt(simd.SumSquares(x.a[r*x.na:(r+1)*x.na])*simd.SumSquares(x.delta[r*x.nd:(r+1)*x.nd]))
	}
}

// alone bounds the length of sums of n numbers, of which times neighbours are one element
// of Δ.
func (x exactOperands) alone(n, times int) func(int) float64 {
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
	return exactUse{add, x.both(1), inChains(rows) + chains(rows*x.records), rows * f.In * f.Out}
}

func (x exactOperands) convolution(c compiler, f op.ConvWeight) exactUse {
	v := newConvolution(f)
	c.reserve(v.scratch(), 0)
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
	terms := c.convRoundings(v, pictures) + c.convMeanwhile(v, pictures*x.records)
	return exactUse{add, x.both(f.KernelH * f.KernelW), terms, pictures * v.area * f.Size()}
}

func (x exactOperands) shift(f op.Shift) exactUse {
	rows := x.nd / (f.Channels * f.Inner)
	add := func(dst []float64, r int, _ *worker) {
		for t := range rows * f.Channels {
			dst[t%f.Channels] += simd.Sum(x.delta[r*x.nd+t*f.Inner:][:f.Inner])
		}
	}
	return exactUse{add, x.alone(rows*f.Inner, 1), rows * (f.Inner + x.records), x.nd}
}

func (x exactOperands) scale(f op.Scale) exactUse {
	rows := x.nd / (f.Channels * f.Inner)
	add := func(dst []float64, r int, _ *worker) {
		for t := range rows * f.Channels {
			at := r*x.nd + t*f.Inner
			dst[t%f.Channels] += simd.Dot(x.a[at:][:f.Inner], x.delta[at:][:f.Inner])
		}
	}
	return exactUse{add, x.both(1), rows * (f.Inner + x.records), x.nd}
}

func (x exactOperands) gather(f op.Gather) exactUse {
	add := func(dst []float64, r int, _ *worker) {
		for t := r * x.na; t < (r+1)*x.na; t++ {
			row, ok := entry(x.a[t], f.Vocabulary)
			if !ok {
				continue
			}
			d := dst[row*f.Dim:][:f.Dim]
			for j, v := range x.delta[t/f.Bag*f.Dim:][:f.Dim] {
				d[j] += float64(v)
			}
		}
	}
	return exactUse{add, x.alone(x.na, f.Bag), x.na * (1 + x.records), f.Size() + x.nd}
}
