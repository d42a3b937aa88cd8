package plantest

import (
	"math"
	"math/rand/v2"

	"github.com/dptrain/dptrain/internal/device/op"
)

// use is a form with the rows of some records.
type use struct {
	form   op.Form
	method op.Method
	in     []operand // A if the form needs it, then Delta
}

// uses draws every form, with one row per record and with several.
func (ts *trials) uses() []use {
	r := ts.r
	var list []use
	add := func(m op.Method, f op.Form, in ...operand) { list = append(list, use{f, m, in}) }
	for _, rows := range []int{1, between(r, 2, 20)} {
		n, p, d := ts.b*rows, size(r), size(r)
		if rows == 1 {
			add(op.RankOne, op.Product{In: p, Out: d}, normal(r, n, p), normal(r, n, d))
		}
		add(op.Gram, op.Product{In: p, Out: d}, normal(r, n, p), normal(r, n, d))
		inner := []int{1, between(r, 2, 40)}[r.IntN(2)]
		add(op.RankOne, op.Shift{Channels: d, Inner: inner}, normal(r, n, d, inner))
		add(op.RankOne, op.Scale{Channels: d, Inner: inner}, normal(r, n, d, inner), normal(r, n, d, inner))
		v := between(r, 1, 30)
		add(op.Group, op.Gather{Vocabulary: v, Dim: d, Bag: 1}, whole(r, -1, v+1, ts.b, rows), normal(r, ts.b, rows, d))
		bag := between(r, 2, 30)
		add(op.Group, op.Gather{Vocabulary: v, Dim: d, Bag: bag}, whole(r, -1, v+1, ts.b, rows*bag), normal(r, ts.b, rows, d))
	}
	f, x, y := ts.convolution(ts.b)
	add(op.Gram, f, x, y)
	f, x, y = ts.convolution(2 * ts.b)
	add(op.RankOne, f, x, y)
	return list
}

// private draws the operations that a private step adds.
func (ts *trials) private() {
	r := ts.r
	for _, u := range ts.uses() {
		ts.list = append(ts.list, trial{
			spec: func(b int) op.Operation { return op.RecordGradients{Form: u.form, Records: b} },
			in:   u.in, records: ts.b, apart: true, tolerance: 1e-5,
		}, trial{
			spec: func(b int) op.Operation { return op.SquaredNorms{Form: u.form, Records: b, Method: u.method} },
			in:   u.in, records: ts.b, apart: true, tolerance: normTolerance(u.method),
		}, ts.sum(u))
		size := u.form.Size()
		at := randomMap(r, size, size+3)
		ts.joint(1e-6, op.Scatter{At: at, Size: size + 3}, weight(normal(r, size)))
	}
	d := size(r)
	ts.apart(1e-6, op.RowSquares{}, normal(r, ts.b, d))
	rows, factors := normal(r, ts.b, d), ts.factors()
	ts.joint(1e-5, op.WeightedRows{}, poisoned(rows, factors), factors)
	factors = ts.factors()
	ts.apart(1e-6, op.ScaleRows{}, poisoned(normal(r, ts.b*2, d), factors), factors)
	ts.list = append(ts.list, trial{
		spec: func(b int) op.Operation { return op.StackRows{Blocks: b} },
		in:   []operand{normal(r, ts.b, 3, d), normal(r, ts.b, d), normal(r, ts.b, 2*d)}, records: ts.b, apart: true,
	})
	ts.mixed()
}

// normTolerance is the allowed relative error of a squared norm. A device may compute
// Gram matrices, and sums of rows that cancel, in float32 if it adds a bound of the
// rounding error to the norm. Norms checks that it does; a device's own tests check the
// size of the bound.
func normTolerance(m op.Method) float64 {
	if m == op.Gram || m == op.Group {
		return 1.0 / (1 << 8)
	}
	return 1e-5
}

// sum is the clipped sum of a use. Some records have factor 0 and contain NaN and
// infinities.
func (ts *trials) sum(u use) trial {
	factors := ts.factors()
	in := make([]operand, 0, len(u.in)+1)
	for i, x := range u.in {
		if _, gather := u.form.(op.Gather); !gather || i > 0 { // an index stays valid even if its record's gradient does not
			x = poisoned(x, factors)
		}
		in = append(in, x)
	}
	return trial{
		spec: func(b int) op.Operation { return op.ClippedSum{Form: u.form, Records: b} },
		in:   append(in, factors), records: ts.b, tolerance: 1e-5,
	}
}

// factors are from 0 to 1, many of them 0 or 1.
func (ts *trials) factors() operand {
	f := normal(ts.r, ts.b)
	for i := range f.values {
		f.values[i] = []float32{0, 1, ts.r.Float32(), ts.r.Float32()}[ts.r.IntN(4)]
	}
	return f
}

// poisoned is x with NaNs and infinities in the blocks of records whose factor is 0.
func poisoned(x, factors operand) operand {
	x.values = append([]float32(nil), x.values...)
	n := len(x.values) / len(factors.values)
	for r, f := range factors.values {
		if f != 0 {
			continue
		}
		for i := range n {
			x.values[r*n+i] = float32(math.NaN())
			if i%3 == 1 {
				x.values[r*n+i] = float32(math.Inf(1 - i%2*2))
			}
		}
	}
	return x
}

// randomMap maps n elements to distinct ones of size.
func randomMap(r *rand.Rand, n, size int) *op.Map {
	at := make([]int32, n)
	for i, to := range r.Perm(size)[:n] {
		at[i] = int32(to)
		if r.IntN(8) == 0 {
			at[i] = -1
		}
	}
	return op.NewMap(at)
}

// mixed draws parameters with several uses: an embedding tied to the last layer, a weight
// that is also a scale, and three uses of one kind.
func (ts *trials) mixed() {
	r, v, d := ts.r, between(ts.r, 1, 20), size(ts.r)
	rows := between(r, 1, 12)
	transposed := make([]int32, d*v)
	for i := range d {
		for j := range v {
			transposed[i*v+j] = int32(j*d + i)
		}
	}
	add := func(size int, parts []op.MappedForm, in ...operand) {
		ts.list = append(ts.list, trial{
			spec: func(b int) op.Operation { return op.MultiUseNorms{Uses: &parts, Size: size, Records: b} },
			in:   in, records: ts.b, apart: true, tolerance: normTolerance(op.Gram),
		})
	}
	product := []operand{normal(r, ts.b*rows, d), normal(r, ts.b*rows, v)}
	gather := []operand{whole(r, -1, v+1, ts.b, rows), normal(r, ts.b, rows, d)}
	tied := []op.MappedForm{
		{Form: op.Gather{Vocabulary: v, Dim: d, Bag: 1}},
		{Form: op.Product{In: d, Out: v}, Map: op.NewMap(transposed)},
	}
	add(v*d, tied, append(append([]operand{}, gather...), product...)...)
	add(v*d, []op.MappedForm{tied[1], tied[0]}, append(append([]operand{}, product...), gather...)...)
	straight := []op.MappedForm{tied[0], {Form: op.Product{In: v, Out: d}}}
	add(v*d, straight, append(append([]operand{}, gather...), product[1], product[0])...)
	add(d*v, []op.MappedForm{
		{Form: op.Product{In: d, Out: v}},
		{Form: op.Scale{Channels: d * v, Inner: 1}},
		{Form: op.Shift{Channels: v, Inner: 2}, Map: randomMap(r, v, d*v)},
	}, product[0], product[1], normal(r, ts.b, d, v), normal(r, ts.b, d, v), normal(r, ts.b*3, v, 2))
	f, x, y := ts.convolution(ts.b)
	add(f.Size(), []op.MappedForm{{Form: f}, {Form: op.Shift{Channels: f.Size(), Inner: 1}}}, x, y, normal(r, ts.b, f.Size()))
	// The bound of the sum's roundings, which the norm includes, is a few percent where the CPU adds a convolution's
	// gradient by Winograd's method.
	ts.list[len(ts.list)-1].tolerance = 1.0 / (1 << 4)
}
