package op

import (
	"fmt"
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Binary applies an arithmetic or comparison operator to two tensors of one shape, or to
// a tensor and a scalar. Kind is the operator's sign: + - * / ^ and the comparisons < >
// <= >= == !=, which give 0 or 1.
type Binary struct{ Kind string }

func (b Binary) String() string { return fmt.Sprintf("binary{%s}", b.Kind) }

func (b Binary) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	switch {
	case in[1].TotalSize() == 1 && in[0].Dims() >= in[1].Dims():
		return in[0].Clone(), nil
	case in[0].TotalSize() == 1, in[0].TotalSize() == in[1].TotalSize() && in[0].Eq(in[1]):
		return in[1].Clone(), nil
	}
	return nil, fmt.Errorf("operands %v and %v differ in shape", in[0], in[1])
}

func (b Binary) at(x, y float64) float64 {
	truth := func(t bool) float64 {
		if t {
			return 1
		}
		return 0
	}
	switch b.Kind {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "/":
		return x / y
	case "^":
		return math.Pow(x, y)
	case "<":
		return truth(x < y)
	case ">":
		return truth(x > y)
	case "<=":
		return truth(x <= y)
	case ">=":
		return truth(x >= y)
	case "==":
		return truth(x == y)
	case "!=":
		return truth(x != y)
	}
	panic("op: no operator " + b.Kind)
}

func (b Binary) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	for i := range out {
		out[i] = b.at(in[0][i%len(in[0])], in[1][i%len(in[1])])
	}
}

func (b Binary) Rows(int) []bool { return allTrue(2) }

// Add is the sum of two tensors of one shape: a residual connection.
type Add struct{}

func (Add) String() string { return "add" }

func (Add) Shape(in []tensor.Shape) (tensor.Shape, error) { return commonShape(in, 2) }

func (Add) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	for i := range out {
		out[i] = in[0][i] + in[1][i]
	}
}

func (Add) Rows(int) []bool { return allTrue(2) }
func (Add) Wrt(int) []bool  { return allTrue(2) }

func (Add) Diff(_ G.Nodes, _, grad *G.Node) (G.Nodes, error) { return G.Nodes{grad, grad}, nil }

// Unary applies one of Gorgonia's functions. Kind is its name there.
type Unary struct{ Kind string }

var unary = map[string]func(float64) float64{
	"abs": math.Abs,
	"sign": func(x float64) float64 {
		switch {
		case x > 0:
			return 1
		case x < 0:
			return -1
		}
		return 0
	},
	"ceil":     math.Ceil,
	"floor":    math.Floor,
	"sin":      math.Sin,
	"cos":      math.Cos,
	"exp":      math.Exp,
	"ln":       math.Log,
	"neg":      func(x float64) float64 { return -x },
	"square":   func(x float64) float64 { return x * x },
	"sqrt":     math.Sqrt,
	"inv":      func(x float64) float64 { return 1 / x },
	"cube":     func(x float64) float64 { return x * x * x },
	"tanh":     Tanh.apply,
	"sigmoid":  Sigmoid.apply,
	"log1p":    math.Log1p,
	"expm1":    math.Expm1,
	"softplus": Softplus.apply,
}

// UnaryFunc is the function with that name, or nil.
func UnaryFunc(kind string) func(float64) float64 { return unary[kind] }

func (u Unary) String() string { return fmt.Sprintf("unary{%s}", u.Kind) }

func (u Unary) Shape(in []tensor.Shape) (tensor.Shape, error) { return commonShape(in, 1) }

func (u Unary) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	f := unary[u.Kind]
	for i, x := range in[0] {
		out[i] = f(x)
	}
}

func (u Unary) Rows(int) []bool { return allTrue(1) }
