package gram

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The assembly computes the same tile as Go, except for the rounding of products.
func TestMultiplyTile_AgreesWithGo(t *testing.T) {
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

// packColumns transposes rows and writes nothing else.
func TestPackColumns_Transposes(t *testing.T) {
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

// The bound on rounding in float32 holds and is tight, for contiguous and interleaved rows.
// The result in float64 is the same for both.
func TestInner_BoundsRounding(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, s := range []struct{ rows, na, nd, block int }{
		{1, 3, 5, 1}, {7, 200, 33, 1}, {16, 64, 1000, 1}, {64, 128, 512, 1}, {65, 31, 31, 1},
		{9, 20, 10, 9}, {64, 100, 64, 64}, {50, 49, 7, 25}, {300, 27, 16, 300},
	} {
		a, d := Vectors{normals(r, s.rows*s.na), s.na, s.block}, Vectors{normals(r, s.rows*s.nd), s.nd, s.block}
		for i := range a.Data { // a common mean, as activations have
			a.Data[i] += 2
		}
		g := New(make([]float32, Scratch(s.rows)), s.rows)
		g.Multiply(g.A, a)
		g.Multiply(g.D, d)
		total, rounding, length := g.Inner(s.na, s.nd)
		want := squaredNormOfGradient(a, d, s.rows)
		exactly, rest, lengths := InnerFloat64(a, d, s.rows)
		if !(lengths <= length && length <= 2*lengths) {
			t.Errorf("%v: the bound on the lengths is %v, their sum is %v", s, length, lengths)
		}
		if !(math.Abs(exactly-want) <= 1e-12*want && rest <= 1e-9*want) {
			t.Errorf("%v: in float64 %v ± %v, want %v", s, exactly, rest, want)
		}
		if !(math.Abs(total-want) <= rounding && rounding <= 1e-3*want) {
			t.Errorf("%v: %v ± %v, want %v", s, total, rounding, want)
		}
		if sq, _ := New(make([]float32, Scratch(s.rows)), s.rows).SquaredNorm(a, d, false); sq != total+rounding {
			t.Errorf("%v: squared norm %v, want %v + %v", s, sq, total, rounding)
		}
	}
}

// squaredNormOfGradient builds Σ_t a_t ⊗ δ_t and returns its squared norm.
func squaredNormOfGradient(a, d Vectors, rows int) (squares float64) {
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

// Rows that cancel, or whose products leave the range of float32, are computed in float64.
func TestSquaredNorm_FallsBackToFloat64(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for name, s := range map[string]struct{ cancelled, a, d float32 }{
		"cancelling":     {1 - 1e-4, 1, 1},
		"beyond float32": {0, 1e25, 1e-25},
		"below float32":  {0, 1e15, 1e-25},
	} {
		const rows, n = 10, 40
		a, d := ContiguousRows(normals(r, rows*n), n), ContiguousRows(normals(r, rows*n), n)
		copy(a.Data[rows*n/2:], a.Data)
		for i := range rows * n / 2 {
			d.Data[rows*n/2+i] = -s.cancelled * d.Data[i]
		}
		for i := range a.Data {
			a.Data[i] *= s.a
			d.Data[i] *= s.d
		}
		g := New(make([]float32, Scratch(rows)), rows)
		want := squaredNormOfGradient(a, d, rows)
		got, _ := g.SquaredNorm(a, d, false)
		if total, rounding, _ := g.Inner(n, n); !Inexact(total, rounding) {
			t.Errorf("%s: %v ± %v counts as exact, the true norm is %v", name, total, rounding, want)
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
	if total, rounding, _ := g.Inner(10, 10); Inexact(total, rounding) {
		t.Errorf("no signal: %v ± %v counts as inexact", total, rounding)
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
