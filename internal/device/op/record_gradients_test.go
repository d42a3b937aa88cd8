package op

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"
)

// used is a form with A (none for a shift) and Delta for a number of records.
type used struct {
	form    Form
	records int
	in      []operand
}

// uses draws every form, for records with several rows.
func uses(r *rand.Rand) []used {
	n, t := between(r, 1, 4), between(r, 1, 3)
	p, d := between(r, 1, 4), between(r, 1, 4)
	w, h, wd := someWindow(r)
	oh, ow, _ := w.OutputSize(h, wd)
	conv := ConvWeight{Window: w, Groups: 1, C: p, H: h, W: wd, O: d}
	return []used{
		{Product{p, d}, n, []operand{normal(r, n*t, p), normal(r, n*t, d)}},
		{Shift{p, d}, n, []operand{normal(r, n, t, p, d)}},
		{Scale{p, d}, n, []operand{normal(r, n, t, p, d), normal(r, n, t, p, d)}},
		{Gather{p, d, 1}, n, []operand{whole(r, -1, p+1, n, t), normal(r, n, t, d)}},
		{Gather{p, d, t}, n, []operand{whole(r, -1, p+1, n, 2*t), normal(r, n, 2, d)}},
		{conv, n, []operand{normal(r, n*t, p, h, wd), normal(r, n*t, d, oh, ow)}},
	}
}

// All methods for a record's squared norm agree, and so do the ways to compute a clipped
// sum.
func TestSquaredNorms_AndSumsAgree(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 19))
		for _, u := range uses(r) {
			what := fmt.Sprintf("%v, %d records", u.form, u.records)
			kept := trial{RecordGradients{u.form, u.records}, u.in}.do(t)
			norms := trial{RowSquares{}, []operand{kept}}.do(t).values
			direct := trial{SquaredNorms{u.form, u.records, Gram}, u.in}.do(t).values
			same(t, what+": norms", direct, norms, 1e-12)

			one := []MappedForm{{Form: u.form}}
			mixed := trial{MultiUseNorms{&one, u.form.Size(), u.records}, u.in}.do(t).values
			same(t, what+": mixed norms", mixed, norms, 1e-12)

			// The same use twice doubles every gradient: uses are added before they are
			// squared.
			two := []MappedForm{{Form: u.form}, {Form: u.form}}
			twice := append(append([]operand(nil), u.in...), u.in...)
			double := trial{MultiUseNorms{&two, u.form.Size(), u.records}, twice}.do(t).values
			for i := range double {
				double[i] /= 4
			}
			same(t, what+": norms of two uses", double, norms, 1e-12)

			factors := normal(r, u.records)
			sum := trial{ClippedSum{u.form, u.records}, append(append([]operand(nil), u.in...), factors)}.do(t).values
			same(t, what+": sums", sum, trial{WeightedRows{}, []operand{kept, factors}}.do(t).values, 1e-12)

			// Scaling the rows of Delta by the factors first gives the same sum.
			last := len(u.in) - 1
			scaled := append([]operand(nil), u.in...)
			scaled[last] = trial{ScaleRows{}, []operand{u.in[last], factors}}.do(t)
			whole := trial{RecordGradients{u.form, 1}, scaled}.do(t).values
			same(t, what+": sums of scaled rows", whole, sum, 1e-12)
		}
	}
}

// A record with factor zero adds nothing, even if its rows contain NaNs.
func TestClippedSum_ZeroFactor(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 23))
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1)}
	for _, u := range uses(r) {
		if u.records < 2 {
			t.Fatal("a single record tests nothing: take another seed")
		}
		factors := normal(r, u.records)
		factors.values[0] = 0
		sums := func() [][]float64 {
			kept := trial{RecordGradients{u.form, u.records}, u.in}.do(t)
			last := u.in[len(u.in)-1]
			return [][]float64{
				trial{ClippedSum{u.form, u.records}, append(append([]operand(nil), u.in...), factors)}.do(t).values,
				trial{WeightedRows{}, []operand{kept, factors}}.do(t).values,
				trial{ScaleRows{}, []operand{last, factors}}.do(t).values,
			}
		}
		clean := sums()
		for _, x := range u.in {
			row := cut(x.values, u.records, 0)
			for i := range row {
				row[i] = bad[i%len(bad)]
			}
		}
		for i, got := range sums() {
			same(t, fmt.Sprintf("%v, sum %d", u.form, i), got, clean[i], 0)
		}
	}
}

// Two uses that cover the same elements of a parameter through different maps are added
// before they are squared.
func TestMultiUseNorms_FollowsMaps(t *testing.T) {
	parts := []MappedForm{
		{Form: Shift{3, 1}, Map: NewMap([]int32{2, 0, -1})},
		{Form: Shift{2, 1}, Map: NewMap([]int32{0, 0})},
	}
	m := MultiUseNorms{&parts, 3, 2}
	in := []operand{
		{tensor.Shape{2, 3}, []float64{1, 10, 100, 2, 20, 200}},
		{tensor.Shape{2, 2}, []float64{3, 4, 5, 6}},
	}
	// Record 0 has gradient [10+3+4, 0, 1], record 1 has [20+5+6, 0, 2].
	same(t, "norms", trial{m, in}.do(t).values, []float64{290, 965}, 0)

	s := Scatter{NewMap([]int32{2, 0, -1}), 4}
	same(t, "scatter", trial{s, []operand{{tensor.Shape{3}, []float64{1, 10, 100}}}}.do(t).values, []float64{10, 0, 1, 0}, 0)
	if n := NewMap([]int32{1, 0, -1, 0, -1, -1, 0}).MaxMultiplicity(2); n != 3 {
		t.Errorf("%d places are one element, want 3", n)
	}
	a := NewMap([]int32{2, 0, -1})
	for _, at := range [][]int32{{2, 0, 1}, {0, 2, -1}, {2, 0}, {2, 0, -1, -1}} {
		if b := NewMap(at); a.String() == b.String() {
			t.Errorf("two maps are called %v", a)
		}
	}
}

// Stacking keeps the rows of each example together.
func TestStackRows(t *testing.T) {
	out := trial{StackRows{2}, []operand{
		{tensor.Shape{2, 2}, []float64{1, 2, 3, 4}},
		{tensor.Shape{4, 2}, []float64{5, 6, 7, 8, 9, 10, 11, 12}},
	}}.do(t)
	same(t, "rows", out.values, []float64{1, 2, 5, 6, 7, 8, 3, 4, 9, 10, 11, 12}, 0)

	// In one use with more rows, a product's gradient is the sum over its uses.
	r := rand.New(rand.NewPCG(1, 29))
	a := []operand{normal(r, 6, 2), normal(r, 3, 2)}
	d := []operand{normal(r, 6, 4), normal(r, 3, 4)}
	form := Product{2, 4}
	parts := []MappedForm{{Form: form}, {Form: form}}
	stacked := trial{SquaredNorms{form, 3, Gram}, []operand{
		trial{StackRows{3}, a}.do(t), trial{StackRows{3}, d}.do(t),
	}}.do(t).values
	mixed := trial{MultiUseNorms{&parts, form.Size(), 3}, []operand{a[0], d[0], a[1], d[1]}}.do(t).values
	same(t, "norms", stacked, mixed, 1e-12)
}

func TestRecordOperations_RefuseBadShapes(t *testing.T) {
	s := func(dims ...int) tensor.Shape { return dims }
	form := Product{2, 3}
	parts := []MappedForm{{Form: form}, {Form: Shift{3, 1}}}
	for _, c := range []struct {
		spec     Operation
		in       []tensor.Shape
		contains string
	}{
		{RecordGradients{form, 3}, []tensor.Shape{s(6, 2)}, "1 inputs given, 2 needed"},
		{RecordGradients{form, 0}, []tensor.Shape{s(6, 2), s(6, 3)}, "0 records"},
		{RecordGradients{form, 5}, []tensor.Shape{s(6, 2), s(6, 3)}, "cut into 5 records"},
		{SquaredNorms{Shift{3, 1}, 3, Gram}, []tensor.Shape{s(6, 3), s(6, 3)}, "2 inputs given, 1 needed"},
		{ClippedSum{form, 3}, []tensor.Shape{s(6, 2), s(6, 3), s(2)}, "factors for 3 records"},
		{WeightedRows{}, []tensor.Shape{s(3, 4), s(2)}, "factors for 3 rows"},
		{RowSquares{}, nil, "0 inputs"},
		{MultiUseNorms{&parts, 6, 3}, []tensor.Shape{s(6, 2), s(6, 3)}, "2 inputs given, 3 needed"},
		{MultiUseNorms{&parts, 6, 4}, []tensor.Shape{s(6, 2), s(6, 3), s(6, 3)}, "cut into 4 records"},
		{Scatter{NewMap([]int32{0}), 2}, []tensor.Shape{s(2)}, "view of 1 elements"},
		{ScaleRows{}, []tensor.Shape{s(4), s(3)}, "cut into 3 rows"},
		{StackRows{3}, []tensor.Shape{s(4, 2)}, "cut into 3 blocks"},
		{StackRows{2}, nil, "0 elements"},
	} {
		_, err := c.spec.Shape(c.in)
		if err == nil || !strings.Contains(err.Error(), c.contains) {
			t.Errorf("%v%v: %v does not contain %q", c.spec, c.in, err, c.contains)
		}
	}
}

// Sources inverts the map of a view.
func TestScatter_Sources(t *testing.T) {
	s := Scatter{NewMap([]int32{4, 0, -1, 4, 2, 0, 4}), 6}
	first, from := s.Sources()
	for i, want := range [][]int32{{1, 5}, nil, {4}, nil, {0, 3, 6}, nil} {
		if got := from[first[i]:first[i+1]]; !slices.Equal(got, want) {
			t.Errorf("element %d has %v of the view, want %v", i, got, want)
		}
	}
}

// A table is tied if one use looks up its rows and the other multiplies by it, transposed
// or not.
func TestMultiUseNorms_TiedTable(t *testing.T) {
	turned := NewMap([]int32{0, 2, 4, 1, 3, 5}) // [2, 3] as [3, 2]
	table := Gather{3, 2, 1}
	lookup, product, straight := MappedForm{Form: table}, MappedForm{Form: Product{2, 3}, Map: turned}, MappedForm{Form: Product{3, 2}}
	for _, c := range []struct {
		parts []MappedForm
		want  TiedTable
	}{
		{[]MappedForm{lookup, product}, TiedTable{table, 0, 1, 2, 3}},
		{[]MappedForm{product, lookup}, TiedTable{table, 2, 3, 0, 1}},
		{[]MappedForm{lookup, straight}, TiedTable{table, 0, 1, 3, 2}},
		{[]MappedForm{straight, lookup}, TiedTable{table, 2, 3, 1, 0}},
		{[]MappedForm{lookup, {Form: Product{2, 3}}}, TiedTable{}},
		{[]MappedForm{lookup, {Form: Product{2, 3}, Map: NewMap([]int32{0, 1, 2, 3, 4, 5})}}, TiedTable{}},
		{[]MappedForm{lookup, {Form: Product{3, 2}, Map: turned}}, TiedTable{}},
		{[]MappedForm{lookup, {Form: Product{2, 2}, Map: NewMap([]int32{0, 2, 1, 3})}}, TiedTable{}},
		{[]MappedForm{lookup, {Form: Product{1, 3}, Map: NewMap([]int32{0, 1, 2})}}, TiedTable{}},
		{[]MappedForm{{Form: Gather{3, 2, 2}}, product}, TiedTable{}},
		{[]MappedForm{{Form: table, Map: turned}, product}, TiedTable{}},
		{[]MappedForm{lookup, lookup}, TiedTable{}},
		{[]MappedForm{product, product}, TiedTable{}},
		{[]MappedForm{lookup, product, product}, TiedTable{}},
	} {
		m := MultiUseNorms{Uses: &c.parts, Size: 6, Records: 1}
		if got, ok := m.TiedTable(); ok != (c.want != TiedTable{}) || ok && got != c.want {
			t.Errorf("%v: %+v, %v", m, got, ok)
		}
	}
}
