//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
)

// Squared norms keep the promise of clip.Single, ‖u‖² ≤ (sq + 1e-30)/(1 − 1e-5), for
// every record: squares are added up in float64, where none overflows or is lost, and
// where terms can cancel, a bound on the roundings is added.

// roundoff is the relative error of one operation in float64.
const roundoff = 1.0 / (1 << 53)

func (c *compiler) productNorms(f op.Product, s op.SquaredNorms, k call) bool {
	rows := k.size(1) / f.Out / s.Records
	switch {
	case s.Method == op.RankOne && rows == 1:
		c.launch("rank_one", dim{uint32(s.Records), 1, 1}, squaring(f.In+f.Out), k.out, k.in[0], k.in[1], int32(f.In), int32(f.Out))
		return true
	case s.Method == op.Gram:
		c.productGram(f, s.Records, rows, k)
		return true
	}
	return c.mixed(op.Mixed{Parts: &[]op.Part{{Form: s.Form}}, Size: s.Form.Size(), Records: s.Records}, k)
}

// gramArgs is the argument of the kernels of kernels/gram.cu.
type gramArgs struct {
	Partial, Signals      driver.Pointer
	Known, Rows, Pairs, _ int32
}

// newGram is the layout of blocks for some rows a record, and their number.
func (c *compiler) newGram(records, rows int) (g gramArgs, grid dim) {
	tiles := ceil(rows, 32)
	pairs := tiles * (tiles + 1) / 2
	g = gramArgs{Partial: c.scratch(16 * records * pairs), Rows: int32(rows), Pairs: int32(pairs)}
	return g, dim{uint32(records * pairs), 1, 1}
}

// gramNorms ends the norms; a row of A and one of Δ have n elements together.
func (c *compiler) gramNorms(g gramArgs, out driver.Pointer, records, n int) {
	c.launch("gram_norms", dim{uint32(ceil(records, 4)), 1, 1}, dim{128, 1, 1},
		out, g.Partial, int32(records), g.Pairs, 2*float64(n+2*int(g.Rows)+8)*roundoff)
}

func (c *compiler) productGram(f op.Product, records, rows int, k call) {
	g, grid := c.newGram(records, rows)
	c.signalGrams(&g, k.bases[1], records, f.Out)
	c.launch("product_gram", grid, dim{128, 1, 1},
		g, k.in[0], k.in[1], int32(f.In), int32(f.Out), aligned(k.in[0], f.In), aligned(k.in[1], f.Out))
	c.gramNorms(g, k.out, records, f.In+f.Out)
}

// signalsOf is the note of a buffer's ΔΔᵀ.
type signalsOf struct{ delta int }

// signalGrams is memory for ΔΔᵀ of every record, where several products of the
// program have the same Δ, as the two weights of an LSTM have, and it takes less
// than Δ itself.
func (c *compiler) signalGrams(g *gramArgs, delta, records, n int) {
	const tile = 32 * 32
	if 2*int(g.Pairs)*tile > int(g.Rows)*n {
		return
	}
	users := 0
	for _, i := range c.program.Front {
		if s, ok := i.Spec.(op.SquaredNorms); ok && s.Method == op.Gram && len(i.In) == 2 && c.program.Buffers[i.In[1]].Base == delta {
			if _, ok := s.Form.(op.Product); ok {
				users++
			}
		}
	}
	if users < 2 {
		return
	}
	var known bool
	g.Signals, known = c.note(signalsOf{delta}, 8*records*int(g.Pairs)*tile)
	g.Known = flag(known)
}
