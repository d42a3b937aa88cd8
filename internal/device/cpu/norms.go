package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/device/cpu/gram"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// Squared norms keep the promise of clipping.Float32Accuracy,
//
//	‖u‖² ≤ (sq + 1e-30)/(1 − 1e-5),
//
// for every record. Here u is the gradient that exact arithmetic makes of the operation's
// operands. But where a clipped sum adds gradients that were computed first, in float32, u is
// exactly the gradient that it adds.
//
//   - Squares are added in float64, where none overflows or is lost.
//   - Where terms can cancel, a bound on the rounding errors of the norm is added. This
//     includes Gram matrices in float32: see package gram.
//   - Where a clipped sum in float32 adds a record's rows that may cancel, a bound on the
//     rounding errors that remain in the sum is added. Otherwise a clip factor that is
//     large because the norm is small would magnify them.
//
// The bounds on the rounding of a clipped sum grow with the rows that one product adds, and so
// with the microbatch (countChains). A record's factor therefore depends on the size of the
// microbatch, not on the other records in it: where rows cancel, it can be much smaller in
// a large microbatch (27% was measured for rows that cancel almost entirely, 3·10⁻⁴ for
// a transformer). Both factors are safe: neither norm is too small.

// addRounding returns the squared norm that includes the given number of float32
// roundings of a clipped sum. length is the sum of the lengths of the record's rows.
func addRounding(square float64, roundings int, length float64) float64 {
	norm := math.Sqrt(square) + float64(roundings)*op.SingleRoundoff*length
	return norm * norm
}

// sequentialRoundings returns how many roundings a term passes through in a sum that adds
// n rows, each times its factor, one by one.
func sequentialRoundings(n int) int { return n + 1 }

// chainedRoundings is sequentialRoundings for n rows of a product over all records, which
// adds one chain after the other. If a record's rows lie in two chains and cancel, rounding
// errors of other records' rows in either chain are as large as those of the rows that
// cancel.
func chainedRoundings(n int) int { return sequentialRoundings(n) + simd.Chain }

// countChains returns how many chains a product over this many rows has. If a record's
// uses cancel, each chain that is added between them is rounded as coarsely as one use.
func countChains(rows int) int { return rows/simd.Chain + 1 }

// operandShare returns op.OperandNormShare times the squared norms of a record's operands.
func (k call) operandShare(r, records int) float64 {
	var squares float64
	for _, x := range k.in {
		n := len(x) / records
		squares += simd.SumSquares(x[r*n : (r+1)*n])
	}
	return op.OperandNormShare * squares
}

func lowerRowSquares(l *lowering, k call) func() {
	out, x := k.out, k.in[0]
	n := len(x) / len(out)
	return l.pool.forRanges(len(out), n, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			if l.program.L1 {
				out[r] = lengthOfRow(x[r*n : (r+1)*n])
				continue
			}
			out[r] = float32(simd.SumSquares(x[r*n : (r+1)*n]))
		}
	})
}

func lowerSquaredNorms(l *lowering, s op.SquaredNorms, k call) func() {
	if l.program.L1 {
		return lowerLengths(l, s, k)
	}
	switch k.Norms {
	case plan.RankOneNorms:
		return lowerRankOneNorms(l, s.Form.(op.Product), k)
	case plan.GatheredNorms:
		return lowerGatherNorms(l, s.Form.(op.Gather), s.Records, k)
	case plan.GramNorms:
		if f, ok := s.Form.(op.Product); ok {
			return lowerProductGramNorms(l, f, s.Records, k)
		}
		f := s.Form.(op.ConvWeight)
		v := newConvolution(f)
		if v.BuildsGradient(k.shapes[0][0] / s.Records * v.area) {
			if g := newPatched(v, k.inChannelsLast[0], k.inChannelsLast[1]); g != nil {
				return lowerPatchedNorms(l, g, s.Records, k)
			}
		}
		return lowerConvGramNorms(l, f, s.Records, k)
	}
	return lowerMultiUseNorms(l, op.MultiUseNorms{Uses: &[]op.MappedForm{{Form: s.Form}}, Size: s.Form.Size(), Records: s.Records}, k)
}

// lowerLengths computes ℓ₁ norms of gradients that are built as contributions build them.
func lowerLengths(l *lowering, s op.SquaredNorms, k call) func() {
	size, out := s.Form.Size(), k.out
	g := newGradientBuilder(l, s.Form, s.Records, k.in, k.inChannelsLast)
	n := min(s.Records, max(2*len(l.pool.workers), builtFloats/size))
	scratch := &l.contributions.scratch
	scratch.reserve(0, 0, 0, n*size)
	base := 0
	some := l.pool.forRanges(n, size+g.cost, func(from, to int, w *worker) {
		for i := from; i < to && base+i < s.Records; i++ {
			row := scratch.floats[i*size : (i+1)*size]
			g.build(row, base+i, w)
			out[base+i] = lengthOfRow(row)
		}
	})
	return func() {
		for base = 0; base < s.Records; base += n {
			some()
		}
	}
}

// lengthOfRow returns an ℓ₁ norm.
func lengthOfRow(x []float32) float32 {
	var length float64
	for _, v := range x {
		length += math.Abs(float64(v))
	}
	return float32(length)
}

// lowerRankOneNorms uses ‖a⊗δ‖² = ‖a‖²‖δ‖².
func lowerRankOneNorms(l *lowering, f op.Product, k call) func() {
	out, a, d := k.out, k.in[0], k.in[1]
	var squares []float64
	if l.program.Exact {
		squares, _ = saveFor(l.saved.squares, rowsKeys(k, f), 2*len(out))
	}
	return l.pool.forRanges(len(out), f.In+f.Out, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			inputs, signals := simd.SumSquares(a[r*f.In:(r+1)*f.In]), simd.SumSquares(d[r*f.Out:(r+1)*f.Out])
			if squares != nil {
				squares[2*r], squares[2*r+1] = inputs, signals
			}
			out[r] = float32(inputs*signals + op.OperandNormShare*(inputs+signals))
		}
	})
}

// rowsKeys names the rows of a product.
func rowsKeys(k call, f op.Product) [2]rowsKey {
	return [2]rowsKey{{k.bases[0], f.In}, {k.bases[1], f.Out}}
}

// lowerProductGramNorms computes the norms of records of several rows from their Gram
// matrices.
func lowerProductGramNorms(l *lowering, f op.Product, records int, k call) func() {
	out, a, d := k.out, k.in[0], k.in[1]
	rows := len(d) / f.Out / records
	na, nd := rows*f.In, rows*f.Out
	scratch := gram.Scratch(rows)
	l.pool.reserve(scratch, 0)
	shared, known := shareSignalGrams(l, k, rowsKey{k.bases[1], f.Out}, records, rows)
	return l.pool.forRanges(records, rows*rows*(f.In+f.Out)/16, func(from, to int, w *worker) {
		for r := from; r < to; r++ {
			g := gram.New(w.floats(scratch), rows)
			n := len(g.D)
			if known {
				g.D = shared[r*n : (r+1)*n]
			}
			square, length := g.SquaredNorm(gram.ContiguousRows(a[r*na:(r+1)*na], f.In),
				gram.ContiguousRows(d[r*nd:(r+1)*nd], f.Out), known)
			out[r] = float32(addRounding(square, chainedRoundings(rows), length) + k.operandShare(r, records))
			if shared != nil && !known {
				copy(shared[r*n:(r+1)*n], g.D)
			}
		}
	})
}

// shareSignalGrams returns memory for ΔΔᵀ of every record if several products of the
// program have the same Δ, as the two weights of an LSTM have, and if ΔΔᵀ is smaller than
// Δ. known reports whether an earlier step fills it.
func shareSignalGrams(l *lowering, k call, delta rowsKey, records, rows int) (shared []float32, known bool) {
	width := gram.Width(rows)
	if !k.SharesSignals || width*width > rows*delta.width {
		return nil, false
	}
	return saveFor(l.saved.signalGrams, delta, records*width*width)
}
