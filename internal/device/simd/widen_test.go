package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/half"
)

var halfFormats = []half.Format{half.BFloat16, half.Float16}

// Each pattern of 16 bits is converted exactly, for each number of columns and distance of rows.
func TestWiden_Exact(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(51, 52))
		all := make([]uint16, 1<<16)
		for i := range all {
			all[i] = uint16(i)
		}
		for _, f := range halfFormats {
			compare := func(got float32, bits uint16) {
				if want := f.Value(bits); math.Float32bits(got) != math.Float32bits(want) && !(got != got && want != want) {
					t.Fatalf("format %d: %04x is %v, want %v", f, bits, got, want)
				}
			}
			wide := make([]float32, len(all))
			runWith(k, func() { Widen(wide, half.Numbers{Format: f, Bits: all}) })
			for i, x := range wide {
				compare(x, uint16(i))
			}
			for range 100 {
				rows, cols := 1+rng.IntN(9), 1+rng.IntN(40)
				lds, ldd := cols+rng.IntN(9), cols+rng.IntN(9)
				src := all[rng.IntN(1<<15):][:area(rows, cols, lds)]
				dst, check := guarded(t, area(rows, cols, ldd))
				k.widen(dst, ldd, half.Numbers{Format: f, Bits: src}, lds, rows, cols)
				check()
				for i := range dst {
					if r, c := i/ldd, i%ldd; c < cols {
						compare(dst[i], src[r*lds+c])
					} else if dst[i] != 0 {
						t.Fatalf("%d×%d: wrote between rows", rows, cols)
					}
				}
			}
		}
	})
}

// A product with 16-bit numbers has the bits of the product with the same numbers as float32, in each share.
func TestGemmRunHalf_SameBits(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(53, 54))
		ws, other := NewWorkspace(), NewWorkspace()
		for round := range 300 {
			g := randomGemm(rng)
			g.TransA, g.LDA = false, g.K+rng.IntN(3)
			nc, na, nb := g.areas()
			f := halfFormats[round%2]
			a, c := random(rng, na), random(rng, nc)
			b, wide := half.Numbers{Format: f, Bits: make([]uint16, nb)}, make([]float32, nb)
			for i := range wide {
				b.Bits[i] = f.BitsOf(float32(rng.NormFloat64()))
				wide[i] = f.Value(b.Bits[i])
			}
			want := slices.Clone(c)
			g.run(k, want, a, wide, ws, 0, 1)
			got, check := fill(t, c)
			shares := 1 + rng.IntN(3)
			for share := range shares {
				g.runHalf(k, got, a, b, other, share, shares)
			}
			check()
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%v, format %d: C has %v at %d, want %v", g, f, got[i], i, want[i])
				}
			}
		}
	})
}

func TestGemmRunHalf_Refuses(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a transposed A is accepted")
		}
	}()
	g := Gemm{TransA: true, M: 1, N: 1, K: 1, LDA: 1, LDB: 1, LDC: 1}
	g.RunHalf(make([]float32, 1), make([]float32, 1), half.Numbers{Format: half.Float16, Bits: make([]uint16, 1)}, NewWorkspace(), 0, 1)
}
