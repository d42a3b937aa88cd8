package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/simd"
)

// tied gives the norms of a table that is looked up and also multiplied with, as
// an embedding tied to the last layer is; nil where the uses are others. With P
// the gradient of the product and G that of the lookup,
//
//	‖P + G‖² = ‖P‖² + ‖G‖² + 2⟨P, G⟩
//
// where ‖P‖² is found from Gram matrices, ‖G‖² by grouping indices, and ⟨P, G⟩
// from row i of P alone for each index i: Σ_s Σ_t δ_t[i_s]·⟨a_t, ε_s⟩. The table
// is never built. P of all records of a microbatch is added up before G of any, or after:
// what lookups of others round away of P, or their products of G, is in the norm.
func (c compiler) tied(s op.MultiUseNorms, k call) func() {
	t, ok := s.TiedTable()
	if !ok {
		return nil
	}
	a, delta := k.in[t.RowsByDim], k.in[t.RowsByEntry]
	index, eps := k.in[t.Index], k.in[t.Delta]
	d, v := t.Table.Dim, t.Table.Vocabulary
	rows, lookups := len(a)/d/s.Records, len(index)/s.Records
	scratch := gramScratch(rows)
	c.reserve(scratch, d)
	for _, w := range c.pool.workers {
		w.groups = w.groups.sized(lookups)
	}
	meanwhile := float64(chains(rows*s.Records) + lookups*s.Records)
	out := k.out
	return c.over(s.Records, rows*rows*(d+v)/16+rows*lookups*d/4, func(from, to int, w *worker) {
		for r := from; r < to; r++ {
			a, delta := a[r*rows*d:(r+1)*rows*d], delta[r*rows*v:(r+1)*rows*v]
			index, eps := index[r*lookups:(r+1)*lookups], eps[r*lookups*d:(r+1)*lookups*d]
			m := newGram(w.floats(scratch), rows)
			inputs, signals := rowsOf(a, d), rowsOf(delta, v)
			m.multiply(m.a, inputs)
			m.multiply(m.d, signals)
			groups := w.groups.sized(lookups)
			groups.find(index, v)
			rest, _ := groups.squared(eps, t.Table, w)
			content := math.Sqrt(rest)
			var length float64
			for t := range rows {
				length += math.Sqrt(simd.SumSquares(a[t*d:(t+1)*d]) * simd.SumSquares(delta[t*v:(t+1)*v]))
			}
			for s, i := range index {
				row, ok := entry(i, v)
				if !ok {
					continue
				}
				e := eps[s*d : (s+1)*d]
				length += math.Sqrt(simd.SumSquares(e))
				for t := range rows {
					rest += 2 * float64(delta[t*v+row]) * simd.Dot(a[t*d:(t+1)*d], e)
				}
			}
			off := cancelled(length, d+v, rows+lookups)
			total, lost, _ := m.inner(d, v)
			if doubtful(total+rest, lost+off) {
				total, lost, _ = innerExactly(inputs, signals, rows)
			}
			content += math.Sqrt(max(total, 0) + lost)
			left := float64(inChains(rows+lookups))*length + meanwhile*content
			out[r] = float32(summed(max(total+rest, 0)+lost+off, 1, left) + k.operands(r, s.Records))
		}
	})
}
