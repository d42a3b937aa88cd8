package op

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// standard are networks of Gorgonia's own operations. Each returns a scalar loss.
var standard = map[string]func(r *rand.Rand, in func(o operand) *G.Node) (*G.Node, error){
	"dense": func(r *rand.Rand, in func(operand) *G.Node) (*G.Node, error) {
		b, p, d := between(r, 2, 4), between(r, 2, 5), between(r, 2, 5)
		h := G.Must(G.Mul(in(normal(r, b, p)), in(normal(r, p, d))))
		h = G.Must(G.BroadcastAdd(h, in(normal(r, 1, d)), nil, []byte{0}))
		h = G.Must(G.Tanh(h))
		return G.Sum(G.Must(G.Square(h)))
	},
	"transposed products": func(r *rand.Rand, in func(operand) *G.Node) (*G.Node, error) {
		p, q := between(r, 2, 4), between(r, 2, 5)
		a, b := in(normal(r, p, q)), in(normal(r, p, q))
		h := G.Must(G.Mul(a, G.Must(G.Transpose(b))))
		k := G.Must(G.Mul(G.Must(G.Transpose(a, 1, 0)), b))
		return G.Add(G.Must(G.Sum(h)), G.Must(G.Sum(G.Must(G.Cube(k)))))
	},
	"convolution": func(r *rand.Rand, in func(operand) *G.Node) (*G.Node, error) {
		y, err := G.Conv2d(in(normal(r, 2, 2, 5, 4)), in(normal(r, 3, 2, 2, 3)), tensor.Shape{2, 3}, []int{1, 1}, []int{2, 1}, []int{1, 1})
		if err != nil {
			return nil, err
		}
		return G.Sum(G.Must(G.Sigmoid(y)))
	},
	"arithmetic": func(r *rand.Rand, in func(operand) *G.Node) (*G.Node, error) {
		d := between(r, 2, 6)
		x, y := in(apart(r, d, 3)), in(apart(r, d, 3))
		s := in(operand{nil, []float64{1.5}})
		h := G.Must(G.HadamardProd(G.Must(G.Sub(x, y)), G.Must(G.Add(x, s))))
		h = G.Must(G.HadamardDiv(h, G.Must(G.Add(G.Must(G.Square(y)), s))))
		h = G.Must(G.HadamardProd(s, G.Must(G.Sub(s, h))))
		h = G.Must(G.Pow(G.Must(G.Add(G.Must(G.Abs(h)), s)), s))
		return G.Sum(h)
	},
	"comparisons": func(r *rand.Rand, in func(operand) *G.Node) (*G.Node, error) {
		x, y := in(whole(r, 0, 3, 4, 3)), in(whole(r, 0, 3, 4, 3))
		one := in(operand{nil, []float64{1}})
		sum := in(normal(r, 4, 3))
		for _, f := range []func(a, b *G.Node, same bool) (*G.Node, error){G.Lt, G.Lte, G.Gt, G.Gte, G.Eq, G.Ne} {
			for _, c := range []*G.Node{y, one} {
				z, err := f(x, c, true)
				if err != nil {
					return nil, err
				}
				sum = G.Must(G.HadamardProd(sum, G.Must(G.Add(z, one))))
			}
		}
		return G.Sum(sum)
	},
	"functions": func(r *rand.Rand, in func(operand) *G.Node) (*G.Node, error) {
		x := in(apart(r, 3, 4))
		above := G.Must(G.Add(G.Must(G.Square(x)), in(operand{nil, []float64{0.5}})))
		h := x
		for _, f := range []func(*G.Node) (*G.Node, error){
			G.Abs, G.Sin, G.Cos, G.Exp, G.Neg, G.Square, G.Cube, G.Tanh, G.Sigmoid, G.Expm1, G.Softplus,
		} {
			h = G.Must(G.Add(h, G.Must(f(x))))
		}
		for _, f := range []func(*G.Node) (*G.Node, error){G.Log, G.Sqrt, G.Inverse, G.Log1p} {
			h = G.Must(G.Add(h, G.Must(f(above))))
		}
		return G.Sum(h)
	},
	"steps": func(r *rand.Rand, in func(operand) *G.Node) (*G.Node, error) {
		x := in(apart(r, 3, 4))
		h := in(normal(r, 3, 4))
		for _, f := range []func(*G.Node) (*G.Node, error){G.Sign, G.Ceil, G.Floor} {
			h = G.Must(G.HadamardProd(h, G.Must(f(x))))
		}
		return G.Sum(h)
	},
	"sums": func(r *rand.Rand, in func(operand) *G.Node) (*G.Node, error) {
		x := in(normal(r, between(r, 2, 4), between(r, 2, 4), between(r, 2, 4)))
		total := G.Must(G.Sum(G.Must(G.Square(x))))
		for _, along := range [][]int{{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}} {
			h, err := G.Sum(x, along...)
			if err != nil {
				return nil, fmt.Errorf("sum along %v: %w", along, err)
			}
			total = G.Must(G.Add(total, G.Must(G.Sum(G.Must(G.Square(h))))))
		}
		return total, nil
	},
	"moves": func(r *rand.Rand, in func(operand) *G.Node) (*G.Node, error) {
		a, b, c := between(r, 2, 4), between(r, 2, 4), between(r, 2, 4)
		x := in(normal(r, a, b, c))
		h := G.Must(G.Transpose(x, 2, 0, 1))
		h = G.Must(G.Concat(0, h, in(normal(r, 2, a, b))))
		h = G.Must(G.Reshape(h, tensor.Shape{c + 2, a * b}))
		h = G.Must(G.Concat(1, h, in(normal(r, c+2, 3)), G.Must(G.Square(h))))
		return G.Sum(G.Must(G.Tanh(h)))
	},
	"slices": func(r *rand.Rand, in func(operand) *G.Node) (*G.Node, error) {
		x := in(normal(r, 3, 4, 5))
		total := G.Must(G.Sum(G.Must(G.Square(x))))
		for _, s := range [][]tensor.Slice{
			{G.S(1, 3)}, {nil, G.S(0, 2)}, {nil, nil, G.S(2, 5)}, {nil, G.S(3)}, {G.S(0), G.S(1, 3)}, {nil, G.S(2), G.S(4)},
			{nil, G.S(0, 4, 2)}, {nil, nil, G.S(1, 5, 2)},
		} {
			h, err := G.Slice(x, s...)
			if err != nil {
				return nil, fmt.Errorf("slice %v: %w", s, err)
			}
			total = G.Must(G.Add(total, G.Must(G.Sum(G.Must(G.Cube(h))))))
		}
		return total, nil
	},
	"vectors": func(r *rand.Rand, in func(operand) *G.Node) (*G.Node, error) {
		p, q := between(r, 2, 4), between(r, 2, 5)
		a, x, y := in(normal(r, p, q)), in(normal(r, q)), in(normal(r, p))
		h := G.Must(G.Mul(a, x))
		k := G.Must(G.Mul(G.Must(G.Transpose(a)), G.Must(G.Tanh(y))))
		return G.Add(G.Must(G.Mul(h, y)), G.Must(G.Sum(G.Must(G.Square(k)))))
	},
	"max pooling": func(r *rand.Rand, in func(operand) *G.Node) (*G.Node, error) {
		w, h, wd := someWindow(r)
		pad := []int{r.IntN(w.KernelH/2 + 1), r.IntN(w.KernelW/2 + 1)}
		y, err := G.MaxPool2D(in(normal(r, 2, 2, h, wd)), tensor.Shape{w.KernelH, w.KernelW}, pad, []int{w.StrideH, w.StrideW})
		if err != nil {
			return nil, err
		}
		return G.Sum(G.Must(G.Square(y)))
	},
	"softmax": func(r *rand.Rand, in func(operand) *G.Node) (*G.Node, error) {
		x := in(normal(r, between(r, 2, 4), between(r, 2, 4), between(r, 2, 4)))
		h := G.Must(G.SoftMax(x))
		for axis := range 3 {
			h = G.Must(G.Add(h, G.Must(G.SoftMax(x, axis))))
			h = G.Must(G.Add(h, G.Must(G.LogSoftMax(G.Must(G.Square(x)), axis))))
		}
		return G.Sum(G.Must(G.Square(h)))
	},
	"broadcasts": func(r *rand.Rand, in func(operand) *G.Node) (*G.Node, error) {
		b, c := between(r, 2, 4), between(r, 2, 4)
		x := in(normal(r, b, c, 3))
		h := G.Must(G.BroadcastHadamardProd(x, in(normal(r, 1, c, 1)), nil, []byte{0, 2}))
		h = G.Must(G.BroadcastSub(h, in(normal(r, b, 1, 1)), nil, []byte{1, 2}))
		return G.Sum(G.Must(G.Square(h)))
	},
}

// The Operation that Canonical returns for each of Gorgonia's operations, forward and
// backward, computes what Gorgonia computes.
func TestCanonical_AgreesWithGorgonia(t *testing.T) {
	seen := map[string]int{}
	for name, build := range standard {
		for seed := range uint64(6) {
			r := rand.New(rand.NewPCG(seed, 11))
			g := G.NewGraph()
			var inputs G.Nodes
			loss, err := build(r, func(o operand) *G.Node {
				n := o.node(t, g, fmt.Sprintf("in%d", len(inputs)))
				inputs = append(inputs, n)
				return n
			})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if name != "comparisons" && name != "steps" {
				if _, err := G.Grad(loss, inputs...); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			var nodes, watched G.Nodes
			for _, n := range g.AllNodes() {
				if n.Op() == nil || Canonical(n) == nil {
					continue
				}
				nodes = append(nodes, n)
				watched = append(append(watched, n), CanonicalOperands(n)...)
			}
			got := run(t, watched...)
			for _, n := range nodes {
				in := CanonicalOperands(n)
				want, values := got[0], got[1:1+len(in)]
				got = got[1+len(in):]
				spec := Canonical(n)
				what := fmt.Sprintf("%s, seed %d: %v of %v as %v", name, seed, n.Op(), ShapesOf(in), spec)
				shape, err := spec.Shape(ShapesOf(in))
				if err != nil || shape.TotalSize() != n.Shape().TotalSize() {
					t.Errorf("%s: shape %v, want %v: %v", what, shape, n.Shape(), err)
					continue
				}
				out := make([]float64, len(want))
				for i := range out {
					out[i] = math.NaN()
				}
				spec.Do(out, values, ShapesOf(in))
				same(t, what, out, want, 1e-12)
				switch s := spec.(type) {
				case Binary:
					seen["binary "+s.Kind]++
				case Unary:
					seen["unary "+s.Kind]++
				default:
					seen[OpKind(n)]++
				}
			}
		}
	}
	want := []string{"linAlgBinOp", "reshapeOp", "transposeOp", "repeatOp", "sumOp", "concatOp", "sliceOp", "sliceIncrOp", "maxPoolOp", "maxPoolDiffOp", "im2colOp", "col2imOp", "softmaxDiffOp"}
	for _, sign := range []string{"+", "-", "*", "/", "^", "<", ">", "<=", ">=", "==", "!="} {
		want = append(want, "binary "+sign)
	}
	for kind := range unary {
		want = append(want, "unary "+kind)
	}
	for _, kind := range want {
		if seen[kind] == 0 {
			t.Errorf("%s was not met", kind)
		}
	}
}
