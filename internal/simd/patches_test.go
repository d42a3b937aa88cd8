package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestPatches: Rows is Im2col in another order, Fold its adjoint, added up in the
// order of the windows.
func TestPatches(t *testing.T) {
	each(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(27, 28))
		for found := 0; found < 150; {
			w := someWindow(rng)
			w.DilH, w.DilW = 1, 1
			if rng.IntN(2) == 0 {
				w.C = 8 + rng.IntN(12)
			}
			if w.Check() != nil || w.Patches() == nil {
				continue
			}
			found++
			oh, ow := w.Out()
			area, kernel := oh*ow, w.KH*w.KW
			taps := w.C * kernel
			img, checkImg := fill(t, random(rng, w.C*w.H*w.W))
			p := w.Patches()
			needed, padded := p.Floats()
			rows, checkRows := guarded(t, needed)
			scratch, checkScratch := guarded(t, padded)
			for i := range scratch {
				scratch[i] = float32(math.NaN())
			}
			with(k, func() { p.Rows(rows, img, scratch) })
			columns := make([]float32, taps*area)
			w.Im2col(columns, area, img)
			want := make([]float32, area*taps)
			for n := range area {
				for tap := range taps {
					want[n*taps+tap%kernel*w.C+tap/kernel] = columns[tap*area+n]
				}
			}
			compareBits(t, "Rows", rows[:area*taps], want)

			copy(rows, random(rng, area*taps))
			sums := make([]float32, len(img))
			for n := range area {
				for tap := range taps {
					c, kh, kw := tap%w.C, tap/w.C/w.KW, tap/w.C%w.KW
					if _, at := w.at(img, c, n/ow*w.StrideH+kh-w.PadH, n%ow*w.StrideW+kw-w.PadW); at >= 0 {
						sums[at] += rows[n*taps+tap]
					}
				}
			}
			back, checkBack := guarded(t, len(img))
			with(k, func() { p.Fold(back, rows, scratch) })
			compareBits(t, "Fold", back, sums)
			for _, check := range []func(){checkImg, checkRows, checkScratch, checkBack} {
				check()
			}
		}
	})
}
