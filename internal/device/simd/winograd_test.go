package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

var winograds = []Winograd{{3}, {5}}

// Every implementation gives the bits of the reference and writes only its results.
func TestWinograd_AgreesWithReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	for _, k := range supported[1:] {
		for trial := range 400 {
			w := winograds[trial%2]
			if k.winograd[trial%2].filters == nil {
				continue
			}
			tiles := 1 + rng.IntN(20)
			_, n := tileVectors(tiles)
			ld, plane := 2*n+w.Taps-1+rng.IntN(5), n+rng.IntN(9)
			rows, checkRows := fill(t, random(rng, w.Taps*ld+2*n+w.Taps-1))
			got, check := guarded(t, (w.Planes()-1)*plane+n)
			want := make([]float32, len(got))
			copy(want, got)
			expectSame := func(what string, f func(dst []float32)) {
				t.Helper()
				runWith(k, func() { f(got) })
				runWith(&reference, func() { f(want) })
				check()
				compareBits(t, k.name+" "+what, got, want)
			}
			rows[rng.IntN(len(rows))] = float32(math.NaN())
			expectSame("image", func(dst []float32) { w.Image(dst, plane, rows, ld, tiles) })
			expectSame("signal", func(dst []float32) { w.Signal(dst, plane, rows, ld, tiles) })
			number := WinogradLanes + rng.IntN(n-WinogradLanes+1)
			filters, checkFilters := fill(t, random(rng, w.Taps*w.Taps*number))
			expectSame("filters", func(dst []float32) { w.Filters(dst, plane, filters) })
			checkRows()

			gradients := make([]float32, len(filters))
			runWith(k, func() { w.Gradients(filters, got, plane) })
			runWith(&reference, func() { w.Gradients(gradients, want, plane) })
			checkFilters()
			compareBits(t, k.name+" gradients", filters, gradients)

			got[rng.IntN(len(got))] = float32(math.NaN())
			relu := rng.IntN(2) == 0
			var results [2][]float32
			for i, which := range []*kernels{k, &reference} {
				top, checkTop := guarded(t, 2*n)
				bottom, checkBottom := guarded(t, 2*n)
				runWith(which, func() { w.Result(top, bottom, got, plane, tiles, 0.3, relu) })
				checkTop()
				checkBottom()
				results[i] = append(append(results[i], top...), bottom...)
			}
			compareBits(t, k.name+" result", results[0], results[1])
		}
	}
}

// The transforms compute the convolution and the gradient of a filter.
func TestWinograd_AgreesWithConvolution(t *testing.T) {
	check := func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(33, 34))
		const n = WinogradLanes
		for trial := range 200 {
			w := winograds[trial%2]
			if k.winograd[trial%2].filters == nil {
				continue
			}
			size, ld := w.Taps*w.Taps, 2*n+w.Taps-1
			// The factor by which intermediate results exceed the terms. For five taps, Bᵀ
			// multiplies by up to 7 in each direction, Aᵀ by up to 5.5.
			growth := map[int]float64{3: 64, 5: 256}[w.Taps]
			image, filters, signal := random(rng, w.Points()*ld), random(rng, size*n), random(rng, 4*n)
			u, v, d := make([]float32, w.Planes()*n), make([]float32, w.Planes()*n), make([]float32, w.Planes()*n)
			m, sums := make([]float32, len(v)), make([]float32, len(v))
			top, bottom, gradients := make([]float32, 2*n), make([]float32, 2*n), make([]float32, size*n)
			runWith(k, func() {
				w.Filters(u, n, filters)
				w.Image(v, n, image, ld, n)
				w.Signal(d, n, signal, 2*n, n)
				for i := range w.Planes() {
					Scale(m[i*n:][:n], v[i*n:][:n], u[i*n])
					sums[i*n] = float32(Dot(v[i*n:][:n], d[i*n:][:n]))
				}
				w.Result(top, bottom, m, n, n, 0.5, false)
				w.Gradients(gradients, sums, n)
			})
			expectClose := func(what string, got float32, want, size float64) {
				t.Helper()
				if !(math.Abs(float64(got)-want) <= growth*size/(1<<24)) {
					t.Fatalf("%d taps: %s is %v, want %v", w.Taps, what, got, want)
				}
			}
			for y, row := range [][]float32{top, bottom} {
				for x, got := range row {
					want, total := 0.5, 0.5
					for i, f := range filters[:size] {
						p := float64(image[(y+i/w.Taps)*ld+x+i%w.Taps]) * float64(f)
						want += p
						total += math.Abs(p)
					}
					expectClose("a result", got, want, total)
				}
			}
			for i := range size {
				want, total := 0.0, 0.0
				for j, x := range signal {
					p := float64(x) * float64(image[(j/(2*n)+i/w.Taps)*ld+j%(2*n)+i%w.Taps])
					want += p
					total += math.Abs(p)
				}
				expectClose("a gradient", gradients[i], want, total)
			}
		}
	}
	check(t, &reference)
	forEachImplementation(t, check)
}

func TestWinograd_PanicsOnShortSlices(t *testing.T) {
	w := Winograd{3}
	for name, f := range map[string]func(){
		"filters": func() { w.Filters(make([]float32, 16*8), 8, make([]float32, 73)) },
		"image":   func() { w.Image(make([]float32, 16*8), 8, make([]float32, 60), 18, 1) },
		"planes":  func() { w.Signal(make([]float32, 16*8-1), 8, make([]float32, 64), 16, 1) },
		"result":  func() { w.Result(make([]float32, 15), make([]float32, 16), make([]float32, 16*8), 8, 1, 0, false) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			runWith(&reference, f)
		}()
	}
}
