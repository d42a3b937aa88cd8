package perexample_test

import (
	"strings"
	"testing"

	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

func TestCompile_NoRecords(t *testing.T) {
	build := designs[0].build(1)
	for _, c := range [][2]int{{0, 1}, {1, 0}, {-1, 1}} {
		if _, err := perexample.Compile(build, c[0], c[1]); err == nil || !strings.Contains(err.Error(), "at least 1") {
			t.Errorf("%d records of %d: %v", c[0], c[1], err)
		}
	}
}

// The warning names a node without a rule, and its operation, once. Records of several
// examples need a rule.
func TestCompile_WarnsOfMissingRule(t *testing.T) {
	for _, d := range designs {
		if !d.loop {
			continue
		}
		p, err := perexample.Compile(d.build(1), 7, 1)
		if err != nil {
			t.Fatal(err)
		}
		if p.Records != 1 || strings.Count(p.Warning, "no per-example rule") != 1 || !strings.Contains(p.Warning, "node ") || strings.Contains(p.Warning, "\n") {
			t.Errorf("%s: %d records, warning %q", d.name, p.Records, p.Warning)
		}
		if _, err := perexample.Compile(d.build(1), 7, 2); err == nil || !strings.Contains(err.Error(), "records of 2 examples need one") {
			t.Errorf("%s: records of 2 examples: %v", d.name, err)
		}
	}
}

// A builder may use other initial values in each call. Those of the first call count.
func TestCompile_InitialValuesOfFirstBuild(t *testing.T) {
	for _, loop := range []bool{false, true} {
		for _, records := range []int{1, 7} {
			calls := 0
			p, err := perexample.Compile(design{make: func(m *maker) *G.Node {
				calls++
				w := m.filled("W", float32(calls), 3, 2)
				m.net.Params = append(m.net.Params, w)
				h := must(G.Mul(m.input("x", 3), w))
				if loop {
					h = apply(double{}, h)
				}
				return must(G.Sum(h))
			}}.build(1), records, 1)
			if err != nil {
				t.Fatal(err)
			}
			if got := floats(p.Params[0].Value())[0]; got != 1 || calls < 2 {
				t.Errorf("loop %t, microbatch of %d: the values of build %g of %d", loop, records, got, calls)
			}
		}
	}
}

// A constant of one over the batch size is detected even if another constant happens to
// be equal.
func TestCompile_EqualConstants(t *testing.T) {
	build := design{make: func(m *maker) *G.Node {
		h := must(G.HadamardProd(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))), number(1./7)))
		return must(G.HadamardProd(squares(h), number(1/float32(m.batch))))
	}}.build(1)
	if _, err := perexample.Compile(build, 7, 1); err == nil || !strings.Contains(err.Error(), "corresponds to two nodes") {
		t.Error(err)
	}
}

// A builder that makes another network for one example only is detected if that network
// is needed.
func TestCompile_SameNetworkForOneExample(t *testing.T) {
	for what, odd := range map[string]func(m *maker, h *G.Node) *G.Node{
		"one more parameter": func(m *maker, h *G.Node) *G.Node { return bias(h, m.param("b", 1, 4)) },
		"one parameter less": func(m *maker, h *G.Node) *G.Node { m.net.Params = m.net.Params[:1]; return h },
		"one of another shape": func(m *maker, h *G.Node) *G.Node {
			m.net.Params = G.Nodes{m.net.Params[0], m.param("v", 1, 1, 4)}
			return h
		},
	} {
		build := design{make: func(m *maker) *G.Node {
			h := bias(must(G.Mul(m.input("x", 3), m.param("W", 3, 4))), m.param("v", 1, 4))
			if m.batch == 1 {
				h = odd(m, h)
			}
			return must(G.Sum(apply(double{}, h)))
		}}.build(1)
		for _, records := range []int{1, 7} {
			if _, err := perexample.Compile(build, records, 1); err == nil || !strings.Contains(err.Error(), "different networks") {
				t.Errorf("%s, microbatch of %d: %v", what, records, err)
			}
		}
	}
}

// A transpose keeps examples in columns, a reshape in rows: combined, they mix examples.
// (Gorgonia itself multiplies the two wrongly, so it cannot serve as the reference.)
func TestCompile_TransposeAndReshape(t *testing.T) {
	for _, product := range []func(m *maker, columns, rows *G.Node) *G.Node{
		func(m *maker, columns, rows *G.Node) *G.Node {
			return squares(must(G.HadamardProd(columns, m.reshape(rows, 2, m.batch))))
		},
		func(m *maker, columns, rows *G.Node) *G.Node {
			return must(G.Mul(m.reshape(columns, 2*m.batch), m.reshape(rows, 2*m.batch)))
		},
	} {
		p, err := perexample.Compile(design{make: func(m *maker) *G.Node {
			h := must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))
			return product(m, must(G.Transpose(h, 1, 0)), must(G.Tanh(h)))
		}}.build(1), 7, 1)
		if err != nil || p.Records != 1 || !strings.Contains(p.Warning, "no per-example rule") {
			t.Errorf("%+v, %v", p, err)
		}
	}
}

// repeated is a matrix of one row, repeated for every example.
func repeated(m *maker, row *G.Node) *G.Node {
	all, _, err := G.Broadcast(row, m.filled("places", 1, m.batch, row.Shape()[1]), G.NewBroadcastPattern([]byte{0}, nil))
	return must(all, err)
}

// Each of these is valid for some microbatch sizes, or for one example, and a less strict
// analysis would take it for another network.
func TestCompile_ExamplesOnlySeemApart(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(m *maker) *G.Node
	}{
		{"time first, upsampled and taken for rows", func(m *maker) *G.Node {
			h := must(G.Upsample2D(must(G.Transpose(m.input("x", 2, 2, 2), 1, 0, 2, 3)), 2))
			return squares(must(G.Mul(m.reshape(h, m.batch, 32), m.param("W", 32, 2))))
		}},
		{"the largest of each row of a picture", func(m *maker) *G.Node {
			h := m.reshape(must(G.Mul(m.input("x", 3), m.param("W", 3, 8))), m.batch, 2, 2, 2)
			return squares(must(G.Max(h, 3)))
		}},
		{"the first parts of all", func(m *maker) *G.Node {
			h := must(G.Mul(m.input("x", 3), m.param("W", 3, 6)))
			return squares(must(G.Slice(m.reshape(h, 6, m.batch), G.S(0, 3))))
		}},
		{"one sibling cut from both", func(m *maker) *G.Node {
			both := must(G.Concat(0, m.input("x", 3), m.input("y", 3)))
			return squares(must(G.Slice(must(G.Mul(both, m.param("W", 3, 4))), G.S(0, m.batch))))
		}},
		{"every other row", func(m *maker) *G.Node {
			h := must(G.Mul(m.reshape(m.input("x", 4, 3), m.batch*4, 3), m.param("W", 3, 4)))
			return squares(must(G.Slice(h, G.S(0, 4*m.batch, 2))))
		}},
		{"all rows added up", func(m *maker) *G.Node {
			h := must(G.Mul(m.reshape(m.input("x", 2, 3), m.batch*2, 3), m.param("W", 3, 4)))
			return squares(must(G.Sum(h, 0)))
		}},
		{"two rows, one and three of an example joined", func(m *maker) *G.Node {
			w := m.param("W", 3, 4)
			rows := func(name string, n int) *G.Node {
				return must(G.Mul(m.reshape(m.input(name, n, 3), m.batch*n, 3), w))
			}
			return squares(must(G.Concat(0, rows("x", 2), rows("y", 1), rows("z", 3))))
		}},
		{"examples on two axes joined", func(m *maker) *G.Node {
			h := must(G.Mul(m.input("x", 3), m.param("W", 3, 36)))
			a, b := m.reshape(h, 6, 6, m.batch), m.reshape(must(G.Transpose(m.reshape(h, m.batch, 6, 6), 1, 0, 2)), 6, 6, m.batch)
			return squares(must(G.Concat(0, a, b)))
		}},
		{"a parameter whose elements are repeated one by one", func(m *maker) *G.Node {
			w, _, err := G.Broadcast(m.param("w", 2, 1), m.filled("places", 1, 2, m.batch), G.NewBroadcastPattern([]byte{1}, nil))
			return squares(must(G.Add(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))), m.reshape(must(w, err), m.batch, 2))))
		}},
		{"a constant that cannot be worked out, repeated", func(m *maker) *G.Node {
			largest := repeated(m, must(G.Max(m.filled("ones", 1, 1, 3, 2), 2)))
			return squares(must(G.Add(must(G.Mul(m.input("x", 3), m.param("W", 3, 3))), largest)))
		}},
		{"a function of a repeated function", func(m *maker) *G.Node {
			w := m.param("w", 1, 4)
			h := bias(must(G.Mul(m.input("x", 3), m.param("W", 3, 4))), w)
			return squares(must(G.Add(h, must(G.Tanh(repeated(m, must(G.Square(w))))))))
		}},
		{"a function repeated and added up", func(m *maker) *G.Node {
			w := repeated(m, must(G.Square(m.param("w", 1, 4))))
			return squares(bias(must(G.Mul(m.input("x", 3), m.param("W", 3, 4))), m.reshape(must(G.Sum(w, 0)), 1, 4)))
		}},
		{"a repeated function, turned", func(m *maker) *G.Node {
			w := m.reshape(repeated(m, must(G.Square(m.param("w", 1, 6)))), m.batch, 2, 3)
			w = m.reshape(must(G.Transpose(w, 0, 2, 1)), m.batch, 6)
			return squares(must(G.Add(must(G.Mul(m.input("x", 3), m.param("W", 3, 6))), w)))
		}},
	} {
		p, err := perexample.Compile(design{make: c.make}.build(1), 2, 1)
		if err != nil || p.Records != 1 || !strings.Contains(p.Warning, "no per-example rule") {
			t.Errorf("%s: %+v, %v", c.name, p, err)
		}
	}
}
