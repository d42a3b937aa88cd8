package lattice

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/device/simd"
)

// randomWindow draws a window over an image with a few hundred elements.
func randomWindow(rng *rand.Rand) simd.Window {
	for {
		w := simd.Window{
			C: 1 + rng.IntN(20), H: 1 + rng.IntN(14), W: 1 + rng.IntN(20), KH: 1 + rng.IntN(5), KW: 1 + rng.IntN(5),
			StrideH: 1 + rng.IntN(3), StrideW: 1 + rng.IntN(3), PadH: rng.IntN(3), PadW: rng.IntN(3), DilH: 1, DilW: 1,
		}
		switch rng.IntN(6) {
		case 0:
			w.DilH, w.DilW = 1+rng.IntN(3), 1+rng.IntN(3)
		case 1:
			w.KW = 6 + rng.IntN(6)
		case 2:
			w.KH, w.KW, w.StrideH, w.StrideW, w.PadH, w.PadW = 1, 1, 1, 1, 0, 0
		}
		if oh, ow := w.OutputSize(); w.H+2*w.PadH >= w.DilH*(w.KH-1)+1 && w.W+2*w.PadW >= w.DilW*(w.KW-1)+1 && oh > 0 && ow > 0 {
			return w
		}
	}
}

func TestUnfolding_AgreesWithDefinition(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(11, 12))
		for range 300 {
			w, channelsLast := randomWindow(rng), rng.IntN(2) == 0
			groups := 1 + rng.IntN(3)
			if w.C%groups != 0 {
				groups = 1
			}
			u := NewUnfolding(w, groups, channelsLast)
			image := randomInts(rng, w.C*w.H*w.W, 1000)
			rows, length := u.Size()
			oh, ow := w.OutputSize()
			scratch, checkScratch := guarded[int16](t, u.Scratch())
			for i := range scratch {
				scratch[i] = 77 // of another image
			}
			for group := range groups {
				dst, check := guarded[int16](t, rows*length)
				k.unfold(u, dst, image, scratch, group)
				check()
				checkScratch()
				var want []int16
				for y := range oh {
					for x := range ow {
						for c := group * w.C / groups; c < (group+1)*w.C/groups; c++ {
							for kh := range w.KH {
								for kw := range w.KW {
									i, j := y*w.StrideH+kh*w.DilH-w.PadH, x*w.StrideW+kw*w.DilW-w.PadW
									v := int16(0)
									if i >= 0 && i < w.H && j >= 0 && j < w.W {
										v = image[(c*w.H+i)*w.W+j]
										if channelsLast {
											v = image[(i*w.W+j)*w.C+c]
										}
									}
									want = append(want, v)
								}
							}
						}
					}
				}
				if !slices.Equal(dst, want) {
					at := 0
					for dst[at] == want[at] {
						at++
					}
					t.Fatalf("%+v, group %d of %d, channels last %v: element %d of row %d is %d, want %d", w, group, groups, channelsLast, at%length, at/length, dst[at], want[at])
				}
			}
		}
	})
}
