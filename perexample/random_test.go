package perexample_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// draft builds a random network: a chain of random operations on a batch of matrices
// [rows, width], with parameters that are shared and viewed in many ways.
type draft struct {
	*maker
	choice *rand.Rand // separate from the values, and the same for every batch
	shared map[string]*G.Node
	x      *G.Node // [batch·rows, width], the rows of an example together
	rows   int
	width  int
}

// weight returns a matrix [p, d]: a parameter, or a random function of parameters.
func (r *draft) weight(p, d int) *G.Node {
	w := r.matrix(p, d)
	switch r.choice.IntN(16) {
	case 0:
		w = must(G.Tanh(w))
	case 1:
		w = must(G.HadamardProd(w, r.weight(p, d)))
	case 2:
		w = must(G.Sub(must(G.Square(w)), r.weight(p, d)))
	case 3:
		w = apply(op.Normalize{Chunk: d, Eps: 0.1, Center: true}, w)
	case 4:
		w = must(G.BroadcastSub(w, r.reshape(must(G.Mean(w, 0)), 1, d), nil, []byte{0}))
	case 5:
		w = must(G.Add(w, must(G.Mul(must(G.Sigmoid(r.weight(p, 2))), r.matrix(2, d)))))
	case 6:
		w = must(G.SoftMax(w, 1))
	case 7:
		w = must(G.HadamardDiv(w, must(G.Add(number(1), must(G.Sum(must(G.Square(w))))))))
	}
	return w
}

// matrix returns a parameter [p, d], sometimes one that is used already, sometimes a view
// of a parameter of another shape.
func (r *draft) matrix(p, d int) *G.Node {
	fresh := func(dims ...int) *G.Node { return r.param(fmt.Sprintf("W%d", len(r.net.Params)), dims...) }
	switch r.choice.IntN(6) {
	case 0:
		return must(G.Transpose(fresh(d, p), 1, 0))
	case 1:
		return r.reshape(fresh(p*d), p, d)
	case 2:
		from := r.choice.IntN(3)
		return must(G.Slice(fresh(p, d+2), nil, G.S(from, from+d)))
	case 3:
		if d > 2 {
			return must(G.Concat(1, fresh(p, 2), fresh(p, d-2)))
		}
	}
	key := fmt.Sprint(p, " ", d)
	if r.shared[key] == nil {
		r.shared[key] = fresh(p, d)
	}
	return r.shared[key]
}

func (r *draft) grow() {
	d := 2 + r.choice.IntN(4)
	switch r.choice.IntN(11) {
	case 0, 1:
		r.x = must(G.Mul(r.x, r.weight(r.width, d)))
		r.width = d
	case 2:
		w := r.weight(d, r.width)
		r.x = must(G.Transpose(must(G.Mul(w, must(G.Transpose(r.x, 1, 0)))), 1, 0))
		r.width = d
	case 3:
		r.x = bias(r.x, r.weight(1, r.width))
	case 4:
		r.x = must(G.BroadcastHadamardProd(r.x, r.weight(1, r.width), nil, []byte{0}))
	case 5:
		f := []func(*G.Node) (*G.Node, error){G.Tanh, G.Sigmoid, G.Rectify, G.Softplus, G.Neg, G.Sin}
		r.x = must(f[r.choice.IntN(len(f))](r.x))
	case 6:
		r.x = must(G.Add(r.x, must(G.Tanh(must(G.Mul(r.x, r.weight(r.width, r.width)))))))
	case 7:
		r.x = must(G.HadamardProd(r.x, must(G.SoftMax(r.x, 1))))
	case 8:
		x := r.reshape(r.x, r.batch, r.rows, r.width)
		x = must(G.Transpose(x, 0, 2, 1))
		r.rows, r.width = r.width, r.rows
		r.x = r.reshape(x, r.batch*r.rows, r.width)
		if r.width == 1 {
			r.x = must(G.Concat(1, r.x, r.x))
			r.width = 2
		}
	case 9:
		r.x = apply(op.Normalize{Chunk: r.width, Eps: 0.1, Center: true}, r.x)
	case 10:
		r.x = apply(op.Linear{Act: op.Tanh}, r.x, r.weight(r.width, d), r.reshape(r.weight(1, d), d))
		r.width = d
	}
}

func random(seed uint64) design {
	return design{name: fmt.Sprint("random ", seed), make: func(m *maker) *G.Node {
		r := &draft{maker: m, choice: rand.New(rand.NewPCG(seed, 8)), shared: map[string]*G.Node{}}
		r.rows, r.width = 1+r.choice.IntN(3), 2+r.choice.IntN(3)
		r.x = r.reshape(m.input("x", r.rows, r.width), m.batch*r.rows, r.width)
		r.x = must(G.Mul(r.x, r.weight(r.width, 3)))
		r.width = 3
		for range 2 + r.choice.IntN(6) {
			r.grow()
		}
		return must(G.Sum(must(G.Square(must(G.Tanh(r.x))))))
	}}
}

// Random networks agree with the oracle, too. None of their operations needs to be
// computed one record at a time.
func TestCompile_RandomNetworks(t *testing.T) {
	const count = 5
	networks := uint64(150)
	if testing.Short() {
		networks = 30
	}
	for seed := range networks {
		d := random(seed)
		t.Run(d.name, func(t *testing.T) {
			e := draw(t, d, seed, count)
			factors := factorsFor(seed, count)
			want := oracle{d.build(seed)}.reference(e, 1, nil, factors)
			p, err := perexample.Compile(d.build(seed), 3+2*int(seed%2), 1)
			if err != nil {
				t.Fatal(err)
			}
			if p.Warning != "" {
				t.Fatal(p.Warning)
			}
			for _, dev := range devices {
				m, err := dev.open(p)
				if err != nil {
					t.Fatal(err)
				}
				t.Run(dev.name, func(t *testing.T) {
					// Some of these networks saturate, so that rounding errors are larger
					// than usual.
					within := 10 * tolerance
					if dev.name == "cuda" { // whose functions round differently
						within *= 2
					}
					compare(t, p, step(t, m, p, e, 1, nil, factors, float32(math.NaN())), want, factors, within)
				})
				m.Close()
			}
		})
	}
}
