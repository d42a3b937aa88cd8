package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// randomWindow draws a window that fits its image.
func randomWindow(rng *rand.Rand) *Window {
	for {
		w := &Window{
			C: 1 + rng.IntN(3), H: 1 + rng.IntN(20), W: 1 + rng.IntN(40),
			KH: 1 + rng.IntN(5), KW: 1 + rng.IntN(5),
			StrideH: 1 + rng.IntN(3), StrideW: 1 + rng.IntN(3),
			PadH: rng.IntN(4), PadW: rng.IntN(4), DilH: 1 + rng.IntN(2), DilW: 1 + rng.IntN(2),
		}
		if rng.IntN(3) == 0 {
			w.StrideH, w.StrideW = 1, 1
		}
		if w.DilH*(w.KH-1) < w.H+2*w.PadH && w.DilW*(w.KW-1) < w.W+2*w.PadW {
			return w
		}
	}
}

// at returns an element of the padded image and its index, −1 on padding.
func (w *Window) at(img []float32, c, y, x int) (v float32, index int) {
	if y < 0 || y >= w.H || x < 0 || x >= w.W {
		return 0, -1
	}
	index = (c*w.H+y)*w.W + x
	return img[index], index
}

func TestIm2col_Col2im_AreAdjoint(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(21, 22))
		for range 500 {
			w := randomWindow(rng)
			oh, ow := w.OutputSize()
			ld, taps := oh*ow+rng.IntN(4), w.C*w.KH*w.KW
			img, checkImg := fill(t, random(rng, w.C*w.H*w.W))
			got, check := guarded(t, (taps-1)*ld+oh*ow)
			runWith(k, func() { w.Im2col(got, ld, img) })
			check()
			if ld == oh*ow {
				channels := 1 + rng.IntN(w.C)
				needed, scratch := w.Unfolding().BufferSizes()
				columns, checkColumns := guarded(t, needed)
				phases, checkPhases := guarded(t, scratch)
				runWith(k, func() { w.Unfolding().Columns(columns, img[:channels*w.H*w.W], phases) })
				checkColumns()
				checkPhases()
				compareBits(t, "Columns", columns[:channels*w.KH*w.KW*ld], got[:channels*w.KH*w.KW*ld])
			}
			gradient, checkGradient := guarded(t, len(img))
			patches, checkPatches := fill(t, random(rng, (taps-1)*ld+oh*ow))
			for i := range gradient {
				gradient[i] = float32(math.NaN())
			}
			runWith(k, func() { w.Col2im(gradient, patches, ld) })
			checkGradient()
			checkPatches()
			checkImg()
			sums := make([]float32, len(img))
			for tap := range taps {
				c, kh, kw := tap/(w.KH*w.KW), tap/w.KW%w.KH, tap%w.KW
				for i := range oh {
					for j := range ow {
						want, index := w.at(img, c, i*w.StrideH+kh*w.DilH-w.PadH, j*w.StrideW+kw*w.DilW-w.PadW)
						if got[tap*ld+i*ow+j] != want {
							t.Fatalf("%+v: tap %d, position %d,%d: %v, want %v", *w, tap, i, j, got[tap*ld+i*ow+j], want)
						}
						if index >= 0 {
							sums[index] += patches[tap*ld+i*ow+j]
						}
					}
				}
			}
			compareBits(t, "Col2im", gradient, sums)
		}
	})
}

func TestPools_AgreeWithDefinition(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(23, 24))
		for range 500 {
			w := randomWindow(rng)
			oh, ow := w.OutputSize()
			values := random(rng, w.C*w.H*w.W)
			for i := range values {
				switch rng.IntN(12) {
				case 0, 1, 2:
					values[i] = 1 // ties
				case 3:
					values[i] = float32(math.Inf(-1))
				case 4:
					if rng.IntN(8) == 0 {
						values[i] = float32(math.NaN())
					}
				}
			}
			img, checkImg := fill(t, values)
			got, check := guarded(t, w.C*oh*ow)
			arg := make([]int32, w.C*oh*ow)
			runWith(k, func() { w.MaxPool(got, arg, img) })
			check()
			checkImg()
			for i := range values {
				if v := float64(values[i]); math.IsNaN(v) || math.IsInf(v, 0) {
					img[i] = 3
				}
			}
			mean, checkMean := guarded(t, w.C*oh*ow)
			runWith(k, func() { w.AvgPool(mean, img) })
			checkMean()
			dy := random(rng, len(got))
			dimg, checkD := guarded(t, len(img))
			runWith(k, func() { w.AvgPoolGrad(dimg, dy) })
			checkD()
			var fromImage, fromMean float64
			for i := range img {
				fromImage += float64(img[i]) * float64(dimg[i])
			}
			scattered := make([]float32, len(img))
			for i := range got {
				c, y, x := i/(oh*ow), i/ow%oh, i%ow
				best, argmax, sum := float32(math.Inf(-1)), -1, 0.0
				for kh := range w.KH {
					for kw := range w.KW {
						ty, tx := y*w.StrideH+kh*w.DilH-w.PadH, x*w.StrideW+kw*w.DilW-w.PadW
						m, _ := w.at(img, c, ty, tx)
						sum += float64(m)
						v, index := w.at(values, c, ty, tx)
						if index >= 0 && (argmax < 0 || v > best || v != v) {
							best, argmax = v, index
						}
					}
				}
				if int(arg[i]) != argmax || got[i] != best && best == best {
					t.Fatalf("%+v: output %d: %v from %d, want %v from %d", *w, i, got[i], arg[i], best, argmax)
				}
				if want := sum / float64(w.KH*w.KW); !(math.Abs(float64(mean[i])-want) <= 1e-5) {
					t.Fatalf("%+v: mean %d: %v, want %v", *w, i, mean[i], want)
				}
				fromMean += float64(mean[i]) * float64(dy[i])
				if argmax >= 0 {
					scattered[argmax] += dy[i]
				}
			}
			if !(math.Abs(fromImage-fromMean) <= 1e-4*float64(len(img))) {
				t.Fatalf("%+v: AvgPoolGrad is not the adjoint: %v and %v", *w, fromImage, fromMean)
			}
			MaxPoolGrad(dimg, dy, arg)
			checkD()
			compareBits(t, "MaxPoolGrad", dimg, scattered)
		}
	})
}

func TestKernels_DoNotAllocate(t *testing.T) {
	w := Window{C: 2, H: 9, W: 9, KH: 3, KW: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1, DilH: 1, DilW: 1}
	img, patches, pooled, arg := make([]float32, 162), make([]float32, 18*25), make([]float32, 50), make([]int32, 50)
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		runWith(k, func() {
			if n := testing.AllocsPerRun(10, func() {
				w.Im2col(patches, 25, img)
				w.Col2im(img, patches, 25)
				w.MaxPool(pooled, arg, img)
				MaxPoolGrad(img, pooled, arg)
				w.AvgPool(pooled, img)
				w.AvgPoolGrad(img, pooled)
				Softmax(pooled, pooled)
				ColSums(pooled[:10], img, 10, 16, 10, pooled[:16], true)
				GELU(pooled, pooled)
				Dot(pooled, pooled)
			}); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	})
}
