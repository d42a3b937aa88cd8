package gram

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A tile in assembly gives what the one in Go gives, but for the rounding of a
// product.
func TestGramTile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, steps := range []int{0, 1, 2, 7, 48} {
		const ld, stride = 40, 32
		x := normals(r, 48*ld)
		got := normals(r, tileRows*stride)
		want := append([]float32(nil), got...)
		multiplyTile(got, stride, x[4:], x[8:], ld, steps)
		multiplyTileGo(want, stride, x[4:], x[8:], ld, steps)
		for i := range got {
			if !(math.Abs(float64(got[i]-want[i])) <= 1e-6*float64(steps+1)) || steps == 0 && got[i] != want[i] {
				t.Fatalf("%d steps: element %d is %v, want %v", steps, i, got[i], want[i])
			}
		}
	}
}

// Columns are the rows turned, whichever way they are made, and nothing else is
// written.
func TestGramColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for cols := range 20 {
		const ld, ldx = 11, 23
		x, got := normals(r, 8*ldx), make([]float32, 20*ld)
		packColumns(got, ld, x, ldx, cols)
		for i, v := range got {
			var want float32
			if c, row := i/ld, i%ld; c < cols && row < 8 {
				want = x[row*ldx+c]
			}
			if v != want {
				t.Fatalf("%d columns: element %d of column %d is %v, want %v", cols, i%ld, i/ld, v, want)
			}
		}
	}
}

// What float32 may have changed is bounded, and not by far, for rows that stand one
// after the other and side by side; what float64 finds is the same for both.
func TestGramBound(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, s := range []struct{ rows, na, nd, beside int }{
		{1, 3, 5, 1}, {7, 200, 33, 1}, {16, 64, 1000, 1}, {64, 128, 512, 1}, {65, 31, 31, 1},
		{9, 20, 10, 9}, {64, 100, 64, 64}, {50, 49, 7, 25}, {300, 27, 16, 300},
	} {
		a, d := Vectors{normals(r, s.rows*s.na), s.na, s.beside}, Vectors{normals(r, s.rows*s.nd), s.nd, s.beside}
		for i := range a.Data { // alike, as activations are
			a.Data[i] += 2
		}
		g := New(make([]float32, Scratch(s.rows)), s.rows)
		g.Multiply(g.A, a)
		g.Multiply(g.D, d)
		total, off, length := g.Inner(s.na, s.nd)
		want := product(a, d, s.rows)
		exactly, rest, lengths := InnerFloat64(a, d, s.rows)
		if !(lengths <= length && length <= 2*lengths) {
			t.Errorf("%v: lengths of %v, and they are %v", s, length, lengths)
		}
		if !(math.Abs(exactly-want) <= 1e-12*want && rest <= 1e-9*want) {
			t.Errorf("%v: in float64 %v within %v, want %v", s, exactly, rest, want)
		}
		if !(math.Abs(total-want) <= off && off <= 1e-3*want) {
			t.Errorf("%v: %v within %v, want %v", s, total, off, want)
		}
		if sq, _ := New(make([]float32, Scratch(s.rows)), s.rows).SquaredNorm(a, d, false); sq != total+off {
			t.Errorf("%v: squared norm %v, want %v and %v", s, sq, total, off)
		}
	}
}

// product is ‖Σ_t a_t ⊗ δ_t‖², of the gradient itself.
func product(a, d Vectors, rows int) (squares float64) {
	at := func(v Vectors, t, k int) float64 {
		return float64(v.Data[(t/v.Block*v.Len+k)*v.Block+t%v.Block])
	}
	for i := range a.Len {
		for j := range d.Len {
			var sum float64
			for t := range rows {
				sum += at(a, t, i) * at(d, t, j)
			}
			squares += sum * sum
		}
	}
	return squares
}

// Where rows take each other back, or leave the range of float32, float64 is asked.
func TestGramDoubt(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for name, s := range map[string]struct{ back, a, d float32 }{
		"taken back":     {1 - 1e-4, 1, 1},
		"beyond float32": {0, 1e25, 1e-25},
		"below float32":  {0, 1e15, 1e-25},
	} {
		const rows, n = 10, 40
		a, d := ContiguousRows(normals(r, rows*n), n), ContiguousRows(normals(r, rows*n), n)
		copy(a.Data[rows*n/2:], a.Data)
		for i := range rows * n / 2 {
			d.Data[rows*n/2+i] = -s.back * d.Data[i]
		}
		for i := range a.Data {
			a.Data[i] *= s.a
			d.Data[i] *= s.d
		}
		g := New(make([]float32, Scratch(rows)), rows)
		want := product(a, d, rows)
		got, _ := g.SquaredNorm(a, d, false)
		if total, off, _ := g.Inner(n, n); !Inexact(total, off) {
			t.Errorf("%s: %v within %v is not doubted, true is %v", name, total, off, want)
		}
		if !(want <= got && got <= want*(1+1e-4)) {
			t.Errorf("%s: squared norm %v, want %v", name, got, want)
		}
	}
	zero := ContiguousRows(make([]float32, 30), 10)
	g := New(make([]float32, Scratch(3)), 3)
	if sq, _ := g.SquaredNorm(ContiguousRows(normals(r, 30), 10), zero, false); !(sq <= 1e-30) {
		t.Errorf("no signal: squared norm %v", sq)
	}
	if total, off, _ := g.Inner(10, 10); Inexact(total, off) {
		t.Errorf("no signal: %v within %v is doubted", total, off)
	}
}

func normals(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// The bounds on rounding in float32 count the roundings of an element.
func TestNorm_CountsRoundings(t *testing.T) {
	expect := func(what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= 1e-6*want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	for _, n := range []int{10, 200} {
		const rows = 20
		x := make([]float32, rows*n)
		for i := range x {
			x[i] = 1
		}
		g := New(make([]float32, Scratch(rows)), rows)
		g.Multiply(g.A, ContiguousRows(x, n))
		cols := panelCols(Width(rows))
		k := float64(min(n, cols)+n/cols+2) * 0x1p-24
		norm, rounding, trace := g.norm(g.A, n)
		expect("norm", norm, float64(rows*n))
		expect("trace", trace, float64(rows*n)/(1-k/(1-k)))
		expect("rounding", rounding, k/(1-k)*trace)
	}
	if inf := math.Inf(1); !Inexact(inf, inf) {
		t.Error("an infinite norm counts as exact")
	}
}
