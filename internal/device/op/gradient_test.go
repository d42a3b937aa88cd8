package op

import (
	"math"
	"math/rand/v2"
	"testing"

	G "gorgonia.org/gorgonia"
)

// Every derivative, built symbolically and run by Gorgonia's tape machine, agrees with
// central differences of the reference.
func TestDiff_AgreesWithFiniteDifferences(t *testing.T) {
	each(t, func(t *testing.T, r *rand.Rand, tr trial) {
		in, out := tr.graph(t)
		loss, w := weigh(t, r, out)
		var wrt G.Nodes
		var at []int
		for i, smooth := range tr.spec.(Differentiable).Wrt(len(in)) {
			if smooth {
				wrt, at = append(wrt, in[i]), append(at, i)
			}
		}
		grads, err := G.Grad(loss, wrt...)
		if err != nil {
			t.Fatal(err)
		}
		for k, g := range grads {
			if x := wrt[k].Shape(); !g.Shape().Eq(x) {
				t.Errorf("gradient of shape %v for input %d of shape %v", g.Shape(), at[k], x)
			}
		}
		got := run(t, append(G.Nodes{out}, grads...)...)
		same(t, "value by the tape machine", got[0], tr.do(t).values, 0)

		f := func() (sum float64) {
			for i, y := range tr.do(t).values {
				sum += w[i] * y
			}
			return sum
		}
		for k, i := range at {
			x := tr.in[i].values
			want := make([]float64, len(x))
			for j, v := range x {
				h := 1e-5 * math.Max(1, math.Abs(v))
				x[j] = v + h
				up := f()
				x[j] = v - h
				want[j] = (up - f()) / (2 * h)
				x[j] = v
			}
			same(t, "gradient of input "+string(rune('a'+i)), got[1+k], want, 2e-7)
		}
	})
}

// The gradient that Form.AddGradient computes from a record's blocks is the ordinary
// gradient of a batch of that record alone, up to the last rounding.
func TestForm_AgreesWithBatchOfOne(t *testing.T) {
	each(t, func(t *testing.T, r *rand.Rand, tr trial) {
		spec, ok := tr.spec.(Parametric)
		if !ok {
			t.Skip("uses no parameter")
		}
		rows := tr.spec.(Rowwise).Rows(len(tr.in))
		whole := tr.do(t)
		batch := whole.shape[0]
		w := normal(r, whole.shape...)

		blocks := parameterUses(t, trial{spec, tr.in}, w)
		for record := range batch {
			alone := trial{spec, make([]operand, len(tr.in))}
			for i, x := range tr.in {
				alone.in[i] = x
				if rows[i] {
					alone.in[i] = row(x, record)
				}
			}
			single := parameterUses(t, alone, row(w, record))
			for i, u := range blocks {
				got := make([]float64, u.form.Size())
				var a []float64
				if u.a != nil {
					a = cut(u.a, batch, record)
				}
				u.form.AddGradient(got, a, cut(u.delta, batch, record))
				same(t, "gradient of input "+string(rune('a'+i)), got, single[i].gradient, 1e-12)
			}
		}
	})
}

// valued is a Use with its tensors, and the ordinary gradient of the parameter.
type valued struct {
	form               Form
	a, delta, gradient []float64
}

// parameterUses runs forward and backward, with w as the gradient of the result. It
// returns the uses of the inputs that are not rows.
func parameterUses(t *testing.T, tr trial, w operand) map[int]valued {
	t.Helper()
	in, out := tr.graph(t)
	loss, err := G.HadamardProd(out, w.node(t, out.Graph(), "w"))
	if err != nil {
		t.Fatal(err)
	}
	if loss, err = G.Sum(loss); err != nil {
		t.Fatal(err)
	}
	uses := map[int]valued{}
	rows := tr.spec.(Rowwise).Rows(len(in))
	var params G.Nodes
	for i, n := range in {
		if !rows[i] {
			params = append(params, n)
		}
	}
	if _, err := G.Grad(loss, params...); err != nil {
		t.Fatal(err)
	}
	var nodes G.Nodes
	var forms []Use
	var at []int
	for i, n := range in {
		if rows[i] {
			continue
		}
		u, err := tr.spec.(Parametric).Use(i, in, out, out.Deriv())
		if err != nil {
			t.Fatal(err)
		}
		at, forms = append(at, i), append(forms, u)
		nodes = append(nodes, n.Deriv(), u.Delta)
		if u.A != nil {
			nodes = append(nodes, u.A)
		}
	}
	got := run(t, nodes...)
	for k, i := range at {
		v := valued{form: forms[k].Form, gradient: got[0], delta: got[1]}
		got = got[2:]
		if forms[k].A != nil {
			v.a, got = got[0], got[1:]
		}
		uses[i] = v
	}
	return uses
}

// cut returns one of n equal blocks.
func cut(x []float64, n, i int) []float64 {
	size := len(x) / n
	return x[i*size : (i+1)*size]
}

// row is one row of an operand, as a batch of one.
func row(x operand, i int) operand {
	s := x.shape.Clone()
	s[0] = 1
	return operand{s, cut(x.values, x.shape[0], i)}
}

// A row of the result of a Rowwise operation has the same bits next to any other rows.
func TestRowwise_RowsAreIndependent(t *testing.T) {
	seen := 0
	each(t, func(t *testing.T, r *rand.Rand, tr trial) {
		spec, ok := tr.spec.(Rowwise)
		if !ok {
			t.Skip("not by rows")
		}
		seen++
		out := tr.do(t)
		for i := range out.shape[0] {
			alone := trial{tr.spec, make([]operand, len(tr.in))}
			for k, byRows := range spec.Rows(len(tr.in)) {
				alone.in[k] = tr.in[k]
				if byRows {
					alone.in[k] = row(tr.in[k], i)
				}
			}
			same(t, "row alone", alone.do(t).values, row(out, i).values, 0)
		}
	})
	if seen == 0 {
		t.Fatal("no operation was tried")
	}
}
