package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestPatches: Rows is Im2col in another order, Fold its adjoint, added up in the
// order of the windows.
func TestPatches(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 50
	}
	each(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(27, 28))
		for found := 0; found < rounds; {
			w := someWindow(rng)
			w.DilH, w.DilW = 1, 1
			if rng.IntN(2) == 0 {
				w.C = 8 + rng.IntN(12)
			}
			if w.Patches(false) == nil {
				continue
			}
			found++
			oh, ow := w.OutputSize()
			area, kernel := oh*ow, w.KH*w.KW
			taps := w.C * kernel
			img, checkImg := fill(t, random(rng, w.C*w.H*w.W))
			p := w.Patches(false)
			needed, padded := p.BufferSizes()
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
			if p := w.Patches(true); p != nil {
				turned := channelsLast(w, img)
				last, checkLast := fill(t, turned)
				again, checkAgain := guarded(t, needed)
				with(k, func() { p.Rows(again, last, scratch) })
				compareBits(t, "Rows, channels last", again[:area*taps], want)
				with(k, func() { p.Fold(last, rows, scratch) })
				compareBits(t, "Fold, channels last", last, channelsLast(w, sums))
				checkLast()
				checkAgain()
			}
			for _, check := range []func(){checkImg, checkRows, checkScratch, checkBack} {
				check()
			}
		}
	})
}

func channelsLast(w *Window, img []float32) []float32 {
	last := make([]float32, len(img))
	for i, v := range img {
		last[i%(w.H*w.W)*w.C+i/(w.H*w.W)] = v
	}
	return last
}

// TestChannelPool: channels last changes neither maxima nor where gradients go.
func TestChannelPool(t *testing.T) {
	each(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(29, 30))
		for range 150 {
			w := someWindow(rng)
			w.C = 8 * (1 + rng.IntN(4))
			var p *ChannelPool
			if with(k, func() { p = w.ChannelPool() }); p == nil {
				t.Skip("no kernel")
			}
			oh, ow := w.OutputSize()
			places := w.C * oh * ow
			values := random(rng, w.C*w.H*w.W)
			for i := range values {
				switch rng.IntN(12) {
				case 0, 1, 2:
					values[i] = 1 // ties
				case 3:
					values[i] = float32(math.Inf(-1))
				case 4:
					values[i] = float32(math.NaN())
				}
			}
			maxima, at := make([]float32, places), make([]int32, places)
			w.MaxPool(maxima, at, values)
			result := &Window{C: w.C, H: oh, W: ow}
			img, checkImg := fill(t, channelsLast(w, values))
			got, checkGot := guarded(t, places)
			arg := make([]uint8, places)
			with(k, func() { p.Max(got, arg, img) })
			compareBits(t, "Max", got, channelsLast(result, maxima))

			dy := random(rng, places)
			back := make([]float32, len(values))
			MaxPoolGrad(back, dy, at)
			with(k, func() { p.Grad(img, channelsLast(result, dy), arg) })
			compareBits(t, "Grad", img, channelsLast(w, back))
			checkImg()
			checkGot()
		}
	})
}
