package cpu

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A tile in assembly gives what the one in Go gives, but for the rounding of a
// product.
func TestGramTile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, steps := range []int{0, 1, 2, 7, 100} {
		const ld, stride = 24, 16
		x := make([]float64, 100*ld)
		for i := range x {
			x[i] = r.NormFloat64()
		}
		got, want := make([]float64, gramHigh*stride), make([]float64, gramHigh*stride)
		for i := range got {
			got[i] = r.NormFloat64()
			want[i] = got[i]
		}
		gramTile(got, stride, x[4:], x[8:], ld, steps)
		gramTileGo(want, stride, x[4:], x[8:], ld, steps)
		for i := range got {
			if !(math.Abs(got[i]-want[i]) <= 1e-13*float64(steps+1)) {
				t.Fatalf("%d steps: element %d is %v, want %v", steps, i, got[i], want[i])
			}
		}
	}
	for n := range 20 {
		src, got := make([]float32, n), make([]float64, n+1)
		for i := range src {
			src[i] = float32(i) + 0.1
		}
		got[n] = -1
		widen(got[:n], src)
		for i, v := range src {
			if got[i] != float64(v) {
				t.Fatalf("%d of %d: %v, want %v", i, n, got[i], v)
			}
		}
		if got[n] != -1 {
			t.Fatalf("%d: what lies behind was overwritten", n)
		}
	}
}

// Columns are the rows widened and turned, whichever way they are made, and
// nothing else is written.
func TestGramColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for cols := range 20 {
		const ld, ldx = 11, 23
		x, got := make([]float32, 8*ldx), make([]float64, 20*ld)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		gramColumns(got, ld, x, ldx, cols)
		for i, v := range got {
			want := 0.0
			if c, row := i/ld, i%ld; c < cols && row < 8 {
				want = float64(x[row*ldx+c])
			}
			if v != want {
				t.Fatalf("%d columns: element %d of column %d is %v, want %v", cols, i%ld, i/ld, v, want)
			}
		}
	}
}
