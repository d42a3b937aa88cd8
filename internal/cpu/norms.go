package cpu

import (
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/plan"
	"github.com/dptrain/dptrain/internal/simd"
)

// Squared norms keep the promise of clip.Single, ‖u‖² ≤ (sq + 1e-30)/(1 − 1e-5),
// for every record: squares are added up in float64, where none overflows or is
// lost, and where terms can cancel, a bound on the roundings is added (to what Gram
// matrices in float32 give, too: see gram). u is the
// gradient that exact arithmetic makes of the operation's operands; where a sum adds up
// gradients that were made first, in float32, u is the very gradient that it adds. Where a
// sum in float32 takes a record's rows that may cancel, what its roundings leave of them
// is added too, or a factor that is large because the norm is small would blow it up.

// roundoff is the relative error of one operation in float64, singleRoundoff that in
// float32.
const (
	roundoff       = 1.0 / (1 << 53)
	singleRoundoff = 1.0 / (1 << 24)
)

// operands is op.OperandShare of the squared norms of a record's operands.
func (k call) operands(r, records int) float64 {
	var squares float64
	for _, x := range k.in {
		n := len(x) / records
		squares += simd.SumSquares(x[r*n : (r+1)*n])
	}
	return op.OperandNormShare * squares
}

func (c compiler) rowSquares(k call) func() {
	out, x := k.out, k.in[0]
	n := len(x) / len(out)
	return c.over(len(out), n, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			out[r] = float32(simd.SumSquares(x[r*n : (r+1)*n]))
		}
	})
}

func (c compiler) squaredNorms(s op.SquaredNorms, k call) func() {
	switch f := s.Form.(type) {
	case op.Product:
		rows := len(k.in[1]) / f.Out / s.Records
		switch {
		case s.Method == op.RankOne && rows == 1:
			return c.rankOne(f, k)
		case s.Method == op.Gram:
			return c.productGram(f, s.Records, k)
		}
	case op.ConvWeight:
		if s.Method == op.Gram {
			v := newConvolution(f)
			if outright(v, k.shapes[0][0]/s.Records) {
				if g := newPatched(v, k.last[0], k.last[1]); g != nil {
					return c.patchedNorms(g, s.Records, k)
				}
			}
			return c.convGram(f, s.Records, k)
		}
	case op.Gather:
		return c.groupNorms(f, s.Records, k)
	}
	return c.mixed(op.MultiUseNorms{Parts: &[]op.MappedForm{{Form: s.Form}}, Size: s.Form.Size(), Records: s.Records}, k)
}

// rankOne: ‖a⊗δ‖² = ‖a‖²‖δ‖².
func (c compiler) rankOne(f op.Product, k call) func() {
	out, a, d := k.out, k.in[0], k.in[1]
	return c.over(len(out), f.In+f.Out, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			rows, signals := simd.SumSquares(a[r*f.In:(r+1)*f.In]), simd.SumSquares(d[r*f.Out:(r+1)*f.Out])
			out[r] = float32(rows*signals + op.OperandNormShare*(rows+signals))
		}
	})
}

func (c compiler) productGram(f op.Product, records int, k call) func() {
	out, a, d := k.out, k.in[0], k.in[1]
	rows := len(d) / f.Out / records
	na, nd := rows*f.In, rows*f.Out
	scratch := gramScratch(rows)
	c.reserve(scratch, 0)
	kept, known := c.signalGrams(rowsIn{k.bases[1], f.Out}, records, rows)
	return c.over(records, rows*rows*(f.In+f.Out)/16, func(from, to int, w *worker) {
		for r := from; r < to; r++ {
			g := newGram(w.floats(scratch), rows)
			n := len(g.d)
			if known {
				g.d = kept[r*n : (r+1)*n]
			}
			square, length := g.squared(rowsOf(a[r*na:(r+1)*na], f.In), rowsOf(d[r*nd:(r+1)*nd], f.Out), known)
			out[r] = float32(summed(square, inChains(rows), length) + k.operands(r, records))
			if kept != nil && !known {
				copy(kept[r*n:(r+1)*n], g.d)
			}
		}
	})
}

// signalGrams is memory for ΔΔᵀ of every record, where several products of the
// program have the same Δ, as the two weights of an LSTM have, and it takes less
// than Δ itself; known tells whether an earlier step fills it.
func (c compiler) signalGrams(delta rowsIn, records, rows int) (kept []float32, known bool) {
	width := gramWidth(rows)
	if c.grams[delta] < 2 || width*width > rows*delta.width {
		return nil, false
	}
	return recalled(c.kept, delta, records*width*width)
}

// countGrams counts the Gram norms of a program by their Δ.
func countGrams(p *plan.Program) map[rowsIn]int {
	n := map[rowsIn]int{}
	for _, i := range p.Front {
		if s, ok := i.Spec.(op.SquaredNorms); ok && s.Method == op.Gram && len(i.In) == 2 {
			if f, ok := s.Form.(op.Product); ok {
				n[rowsIn{p.Buffers[i.In[1]].Base, f.Out}]++
			}
		}
	}
	return n
}
