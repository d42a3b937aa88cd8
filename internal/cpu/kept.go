package cpu

import (
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/simd"
)

// builder makes one record's gradient on one thread. It overwrites dst.
type builder struct {
	build func(dst []float32, r int, w *worker)
	cost  int // of one record
}

// builder is that of a form.
func (c compiler) builder(form op.Form, records int, in [][]float32, last []bool) builder {
	a, delta := in[0], in[len(in)-1]
	na, nd := len(a)/records, len(delta)/records
	switch f := form.(type) {
	case op.Product:
		rows := nd / f.Out
		g := simd.Gemm{TransA: true, M: f.In, N: f.Out, K: rows, LDA: f.In, LDB: f.Out, LDC: f.Out}
		return builder{func(dst []float32, r int, w *worker) {
			g.Run(dst, a[r*na:(r+1)*na], delta[r*nd:(r+1)*nd], w.gemm, 0, 1)
		}, rows * f.In * f.Out / 8}
	case op.ConvWeight:
		v := newConvolution(f)
		pictures := nd / (f.O * v.area)
		if g := c.gradientWinograd(v); g != nil {
			c.reserve(g.scratch()+g.Planes()*g.filterPlane(), 0)
			return builder{func(dst []float32, r int, w *worker) {
				g.gradient(dst, a, delta, r*pictures, pictures, w)
			}, pictures * v.area * f.Size() / 16}
		}
		if g := newPatched(v, last[0], last[1]); g != nil {
			c.reserve(g.scratch(), 0)
			return g.builder(a, delta, pictures)
		}
		c.reserve(v.scratch(), 0)
		return builder{func(dst []float32, r int, w *worker) {
			for n := range pictures {
				at := r*pictures + n
				v.gradWeight(dst, v.picture(a, at), v.result(delta, at), n > 0, w)
			}
		}, pictures * v.area * f.Size() / 8}
	case op.Shift:
		if last[0] {
			f.Inner = 1
		}
		return builder{func(dst []float32, r int, w *worker) {
			(&channelSum{f.Channels, f.Inner, nd / (f.Channels * f.Inner), nil, delta[r*nd : (r+1)*nd], nil}).run(dst, 0, false, w)
		}, nd}
	case op.Scale:
		c.reserve(f.Channels, 0)
		return builder{func(dst []float32, r int, w *worker) {
			(&channelSum{f.Channels, f.Inner, nd / (f.Channels * f.Inner), a[r*na : (r+1)*na], delta[r*nd : (r+1)*nd], nil}).run(dst, 0, false, w)
		}, nd}
	}
	f := form.(op.Gather)
	return builder{func(dst []float32, r int, _ *worker) {
		clear(dst)
		for t := r * na; t < (r+1)*na; t++ {
			if row, ok := entry(a[t], f.Vocabulary); ok {
				at := dst[row*f.Dim : (row+1)*f.Dim]
				simd.Add(at, at, delta[t/f.Bag*f.Dim:][:f.Dim])
			}
		}
	}, f.Size() + nd}
}

func (c compiler) recordGradients(s op.RecordGradients, k call) func() {
	b := c.builder(s.Form, s.Records, k.in, k.last)
	out, n := k.out, s.Form.Size()
	return c.over(s.Records, b.cost, func(from, to int, w *worker) {
		for r := from; r < to; r++ {
			b.build(out[r*n:(r+1)*n], r, w)
		}
	})
}

// weightedRows adds c_r·row_r in the order of the records; a task owns columns.
func (c compiler) weightedRows(k call) func() {
	out, x, factors := k.out, k.in[0], k.in[1]
	n := len(out)
	return c.over(n, len(factors), func(from, to int, _ *worker) {
		simd.ColSums(out[from:to], x[from:], n, len(factors), to-from, factors, k.accumulate)
	})
}
