package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Every implementation gives the bits of pure Go, and reads and writes what it
// says.
func TestWinogradBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	for _, k := range supported[1:] {
		for range 200 {
			tiles := 1 + rng.IntN(20)
			n := ceilDiv(tiles, WinogradLanes) * WinogradLanes
			ld, plane := 2*n+2+rng.IntN(5), n+rng.IntN(9)
			rows, _ := fill(t, random(rng, 3*ld+2*n+2))
			rows[rng.IntN(len(rows))] = float32(math.NaN())
			got, check := guarded(t, 15*plane+n)
			want := make([]float32, len(got))
			copy(want, got)
			with(k, func() { WinogradImage(got, plane, rows, ld, tiles) })
			with(&pureGo, func() { WinogradImage(want, plane, rows, ld, tiles) })
			check()
			compareBits(t, k.name+" image", got, want)

			with(k, func() { WinogradSignal(got, plane, rows, ld, tiles) })
			with(&pureGo, func() { WinogradSignal(want, plane, rows, ld, tiles) })
			check()
			compareBits(t, k.name+" signal", got, want)

			number := WinogradLanes + rng.IntN(n-WinogradLanes+1)
			filters, checkFilters := fill(t, random(rng, 9*number))
			with(k, func() { WinogradFilters(got, plane, filters) })
			with(&pureGo, func() { WinogradFilters(want, plane, filters) })
			check()
			compareBits(t, k.name+" filters", got, want)
			wantBack := make([]float32, 9*number)
			with(k, func() { WinogradGradients(filters, got, plane) })
			checkFilters()
			with(&pureGo, func() { WinogradGradients(wantBack, want, plane) })
			compareBits(t, k.name+" gradients", filters, wantBack)

			src, _ := fill(t, random(rng, 15*plane+n))
			src[rng.IntN(len(src))] = float32(math.NaN())
			relu := rng.IntN(2) == 0
			var results [2][]float32
			for i, which := range []*kernels{k, &pureGo} {
				top, checkTop := guarded(t, 2*n)
				bottom, checkBottom := guarded(t, 2*n)
				with(which, func() { WinogradResult(top, bottom, src, plane, tiles, 0.3, relu) })
				checkTop()
				checkBottom()
				results[i] = append(append(results[i], top...), bottom...)
			}
			compareBits(t, k.name+" result", results[0], results[1])
		}
	}
}

// One tile, transformed, multiplied and turned back, is the convolution.
func TestWinogradIsAConvolution(t *testing.T) {
	each(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(33, 34))
		for range 100 {
			const n = WinogradLanes
			image, filters := random(rng, 4*(2*n+2)), random(rng, 9*n)
			filter := filters[:9]
			u, v := make([]float32, 16*n), make([]float32, 16*n)
			top, bottom := make([]float32, 2*n), make([]float32, 2*n)
			with(k, func() {
				WinogradFilters(u, n, filters)
				WinogradImage(v, n, image, 2*n+2, n)
				for i := range 16 {
					Scale(v[i*n:][:n], v[i*n:][:n], u[i*n])
				}
				WinogradResult(top, bottom, v, n, n, 0.5, false)
			})
			for y, row := range [][]float32{top, bottom} {
				for x, got := range row {
					want, size := 0.5, 0.5
					for i, f := range filter {
						p := float64(image[(y+i/3)*(2*n+2)+x+i%3]) * float64(f)
						want += p
						size += math.Abs(p)
					}
					// Within 16 roundings of numbers at most four times as large.
					if math.Abs(float64(got)-want) > 64*size/(1<<24) {
						t.Fatalf("result %d,%d is %v, want %v", y, x, got, want)
					}
				}
			}
		}
	})
}

// The gradient of a filter from one tile is what the definition says.
func TestWinogradGradient(t *testing.T) {
	each(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(35, 36))
		for range 100 {
			const n = WinogradLanes
			image, signal := random(rng, 4*(2*n+2)), random(rng, 4*n)
			v, d, s := make([]float32, 16*n), make([]float32, 16*n), make([]float32, 16*n)
			all := make([]float32, 9*n)
			got := all[:9]
			with(k, func() {
				WinogradImage(v, n, image, 2*n+2, n)
				WinogradSignal(d, n, signal, 2*n, n)
				for i := range 16 {
					s[i*n] = float32(Dot(v[i*n:][:n], d[i*n:][:n]))
				}
				WinogradGradients(all, s, n)
			})
			for i := range got {
				want, size := 0.0, 0.0
				for j, x := range signal {
					p := float64(x) * float64(image[(j/(2*n)+i/3)*(2*n+2)+j%(2*n)+i%3])
					want += p
					size += math.Abs(p)
				}
				// Within 16 roundings of sums at most eight times as large.
				if math.Abs(float64(got[i])-want) > 128*size/(1<<24) {
					t.Fatalf("gradient %d is %v, want %v", i, got[i], want)
				}
			}
		}
	})
}

func TestWinogradRefuses(t *testing.T) {
	for name, f := range map[string]func(){
		"filters": func() { WinogradFilters(make([]float32, 16*8), 8, make([]float32, 73)) },
		"image":   func() { WinogradImage(make([]float32, 16*8), 8, make([]float32, 60), 18, 1) },
		"result": func() {
			WinogradResult(make([]float32, 15), make([]float32, 16), make([]float32, 16*8), 8, 1, 0, false)
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: memory too short was taken", name)
				}
			}()
			f()
		}()
	}
}
