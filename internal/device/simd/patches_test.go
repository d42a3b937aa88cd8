package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Rows is Im2col in another order. Fold is its adjoint, which adds in the order of the windows.
func TestPatches_AgreesWithIm2col(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 50
	}
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(27, 28))
		for found := 0; found < rounds; {
			w := randomWindow(rng)
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
			runWith(k, func() { p.Rows(rows, img, scratch) })
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
			gradient, checkGradient := guarded(t, len(img))
			runWith(k, func() { p.Fold(gradient, rows, scratch) })
			compareBits(t, "Fold", gradient, sums)
			if p := w.Patches(true); p != nil {
				last, checkLast := fill(t, channelsLast(w, img))
				again, checkAgain := guarded(t, needed)
				runWith(k, func() { p.Rows(again, last, scratch) })
				compareBits(t, "Rows, channels last", again[:area*taps], want)
				runWith(k, func() { p.Fold(last, rows, scratch) })
				compareBits(t, "Fold, channels last", last, channelsLast(w, sums))
				checkLast()
				checkAgain()
			}
			for _, check := range []func(){checkImg, checkRows, checkScratch, checkGradient} {
				check()
			}
		}
	})
}

// channelsLast returns an image with its channels last.
func channelsLast(w *Window, img []float32) []float32 {
	last := make([]float32, len(img))
	for i, v := range img {
		last[i%(w.H*w.W)*w.C+i/(w.H*w.W)] = v
	}
	return last
}

// Maxima and gradients are the same with channels last as plane by plane.
func TestChannelPool_AgreesWithMaxPool(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(29, 30))
		for range 150 {
			w := randomWindow(rng)
			w.C = 8 * (1 + rng.IntN(4))
			var p *ChannelPool
			if runWith(k, func() { p = w.ChannelPool() }); p == nil {
				t.Skip("no kernel")
			}
			oh, ow := w.OutputSize()
			positions := w.C * oh * ow
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
			maxima, at := make([]float32, positions), make([]int32, positions)
			w.MaxPool(maxima, at, values)
			result := &Window{C: w.C, H: oh, W: ow}
			img, checkImg := fill(t, channelsLast(w, values))
			got, checkGot := guarded(t, positions)
			arg := make([]uint8, positions)
			runWith(k, func() { p.Max(got, arg, img) })
			compareBits(t, "Max", got, channelsLast(result, maxima))

			dy := random(rng, positions)
			gradient := make([]float32, len(values))
			MaxPoolGrad(gradient, dy, at)
			runWith(k, func() { p.Grad(img, channelsLast(result, dy), arg) })
			compareBits(t, "Grad", img, channelsLast(w, gradient))
			checkImg()
			checkGot()
		}
	})
}
