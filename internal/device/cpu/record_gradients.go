package cpu

import (
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// lowerRecordOp makes the step of squared norms and gradients of each record.
func lowerRecordOp(l *lowering, spec op.Operation, k call) func() {
	switch s := spec.(type) {
	case op.WeightedRows:
		return lowerWeightedRows(l, k)
	case op.SquaredNorms:
		return lowerSquaredNorms(l, s, k)
	case op.RecordGradients:
		return lowerRecordGradients(l, s, k)
	case op.RowSquares:
		return lowerRowSquares(l, k)
	case op.MultiUseNorms:
		return lowerMultiUseNorms(l, s, k)
	case op.Scatter:
		return lowerScatter(l, s, k)
	case op.ScaleRows:
		return lowerScaleRows(l, k)
	}
	return nil
}

// gradientBuilder computes the gradient of record r on one thread. It overwrites dst.
type gradientBuilder struct {
	build func(dst []float32, r int, w *worker)
	cost  int // of one record
}

// newGradientBuilder makes the builder of a form from its operands. last states which
// operands have their channels last.
func newGradientBuilder(l *lowering, form op.Form, records int, in [][]float32, last []bool) gradientBuilder {
	a, delta := in[0], in[len(in)-1]
	na, nd := len(a)/records, len(delta)/records
	switch f := form.(type) {
	case op.Product:
		rows := nd / f.Out
		g := simd.Gemm{TransA: true, M: f.In, N: f.Out, K: rows, LDA: f.In, LDB: f.Out, LDC: f.Out}
		return gradientBuilder{func(dst []float32, r int, w *worker) {
			g.Run(dst, a[r*na:(r+1)*na], delta[r*nd:(r+1)*nd], w.gemm, 0, 1)
		}, rows * f.In * f.Out / 8}
	case op.ConvWeight:
		v := newConvolution(f)
		pictures := nd / (f.O * v.area)
		if g := newGradientWinograd(l, v); g != nil {
			l.pool.reserve(g.scratch()+g.Planes()*g.filterPlane(), 0)
			return gradientBuilder{func(dst []float32, r int, w *worker) {
				g.gradient(dst, a, delta, r*pictures, pictures, w)
			}, pictures * v.area * f.Size() / 16}
		}
		if g := newPatched(v, last[0], last[1]); g != nil {
			l.pool.reserve(g.scratch(), 0)
			return g.gradientBuilder(a, delta, pictures)
		}
		l.pool.reserve(v.scratch(), 0)
		return gradientBuilder{func(dst []float32, r int, w *worker) {
			for n := range pictures {
				at := r*pictures + n
				v.gradWeight(dst, v.picture(a, at), v.result(delta, at), n > 0, w)
			}
		}, pictures * v.area * f.Size() / 8}
	case op.Shift:
		if last[0] {
			f.Inner = 1
		}
		return gradientBuilder{func(dst []float32, r int, w *worker) {
			(&channelSum{f.Channels, f.Inner, nd / (f.Channels * f.Inner), nil, delta[r*nd : (r+1)*nd], nil}).run(dst, 0, false, w)
		}, nd}
	case op.Scale:
		l.pool.reserve(f.Channels, 0)
		return gradientBuilder{func(dst []float32, r int, w *worker) {
			(&channelSum{f.Channels, f.Inner, nd / (f.Channels * f.Inner), a[r*na : (r+1)*na],
				delta[r*nd : (r+1)*nd], nil}).run(dst, 0, false, w)
		}, nd}
	}
	f := form.(op.Gather)
	return gradientBuilder{func(dst []float32, r int, _ *worker) {
		clear(dst)
		for t := r * na; t < (r+1)*na; t++ {
			if row, ok := parseIndex(a[t], f.Vocabulary); ok {
				at := dst[row*f.Dim : (row+1)*f.Dim]
				simd.Add(at, at, delta[t/f.Bag*f.Dim:][:f.Dim])
			}
		}
	}, f.Size() + nd}
}

func lowerRecordGradients(l *lowering, s op.RecordGradients, k call) func() {
	b := newGradientBuilder(l, s.Form, s.Records, k.in, k.inChannelsLast)
	out, n := k.out, s.Form.Size()
	return l.pool.forRanges(s.Records, b.cost, func(from, to int, w *worker) {
		for r := from; r < to; r++ {
			b.build(out[r*n:(r+1)*n], r, w)
		}
	})
}

// lowerWeightedRows adds c_r·row_r in the order of the records. Each task computes some
// of the columns.
func lowerWeightedRows(l *lowering, k call) func() {
	out, x, factors := k.out, k.in[0], k.in[1]
	n := len(out)
	return l.pool.forRanges(n, len(factors), func(from, to int, _ *worker) {
		simd.ColSums(out[from:to], x[from:], n, len(factors), to-from, factors, k.accumulate)
	})
}

// lowerScaleRows multiplies equal blocks by their weights. A block of weight 0 becomes 0
// even if it contains NaN or infinities.
func lowerScaleRows(l *lowering, k call) func() {
	out, x, weights := k.out, k.in[0], k.in[1]
	n := len(out) / len(weights)
	return l.pool.forRanges(len(weights), n, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			y := out[r*n : (r+1)*n]
			if weights[r] == 0 {
				clear(y)
			} else {
				simd.Scale(y, x[r*n:(r+1)*n], weights[r])
			}
		}
	})
}

// lowerScatter adds the elements of a parameter's view at their places in the parameter.
func lowerScatter(l *lowering, s op.Scatter, k call) func() {
	first, from := s.Sources()
	out, x := k.out, k.in[0]
	return l.pool.forRanges(s.Size, 3, func(lo, hi int, _ *worker) {
		for i := lo; i < hi; i++ {
			var v float32
			for _, j := range from[first[i]:first[i+1]] {
				v += x[j]
			}
			out[i] = v
		}
	})
}
