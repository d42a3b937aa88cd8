package perexample

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
)

func describe(n *G.Node) string {
	switch {
	case n.Op() == nil:
		return "node " + n.Name()
	case isConstant(n):
		return "constant " + constantName(n)
	}
	return oneLine(fmt.Sprintf("node %s (%v)", n.Name(), n.Op()))
}

// constantName is a constant's name in one line. Gorgonia uses the numbers as the name of
// a constant without one.
func constantName(n *G.Node) string {
	if op.OpKind(n) == "constantTensor" && n.Name() == fmt.Sprint(n.Value()) {
		return fmt.Sprintf("of shape %v", n.Shape())
	}
	return oneLine(n.Name())
}

func mixesExamples(n *G.Node, why string) error {
	return fmt.Errorf("%s mixes examples: %s; each example must pass through the network independently of the others", describe(n), why)
}

// unsupportedOps are operations that cannot be trained, with what to use instead.
var unsupportedOps = map[string]string{
	"BatchNormOp":         "it mixes the examples of a microbatch; use layer.GroupNorm or layer.LayerNorm, or layer.BatchNorm, whose running statistics are released privately",
	"GroupNormOp":         "Gorgonia v0.9.18 prints the gradients of its GroupNorm, which are private; use layer.GroupNorm",
	"avgPoolOp":           "Gorgonia v0.9.18 computes it wrongly; use layer.AvgPool",
	"globalAveragePoolOp": "Gorgonia v0.9.18 computes it wrongly; use layer.GlobalAvgPool",
	"dropoutOp":           "its random numbers for a record depend on how many records came before; use layer.Dropout",
	"randomOp":            "its random numbers for a record depend on how many records came before; make it an input, or use layer.Dropout",
}

var unsupportedUnary = map[string]string{
	"log2":    "Gorgonia v0.9.18 differentiates Log2 wrongly; use Log and divide by ln 2",
	"invSqrt": "Gorgonia v0.9.18 differentiates InverseSqrt wrongly; use Inverse of Sqrt",
}

// checkOperations refuses a network with a node that cannot be trained.
func checkOperations(net *Network) error {
	for _, n := range net.Loss.Graph().ByName("") {
		if n.Op() == nil {
			return fmt.Errorf("a variable of shape %v has no name: Gorgonia v0.9.18 merges two such variables; name each with gorgonia.WithName", n.Shape())
		}
	}
	graph := countEdges(net.Loss.Graph())
	for _, end := range append(net.observed(), net.Loss, net.Output, net.Losses) {
		if end == nil {
			continue
		}
		for _, n := range op.Ancestors(end) {
			if err := checkOperation(n, graph); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkOperation(n *G.Node, graph edgeCounts) error {
	if n.Op() == nil {
		return nil
	}
	kind, name := op.OpKind(n), n.Op().String()
	why := unsupportedOps[kind]
	switch {
	case kind == "elemUnaryOp" && unsupportedUnary[name] != "":
		why = unsupportedUnary[name]
	case kind == "linAlgBinOp" && strings.Contains(name, "⊗"):
		why = "Gorgonia v0.9.18 computes OuterProd wrongly; use Mul of a column and a row"
	case kind == "maxOp" && isMiscomputedMax(n):
		why = "Gorgonia v0.9.18 computes Max wrongly along an axis between others; move the axis to the end with Transpose"
	case isSignedNorm(n):
		why = "Gorgonia v0.9.18 computes Norm without absolute values: p = 1 gives a signed sum, another odd p NaN where the sum is negative, and p = 0 no root; use p = 2, or pass it gorgonia.Abs of its operand and p ≠ 0"
	case kind == "sliceOp" && isMiscountedSlice(n):
		why = "Gorgonia v0.9.18 miscounts a slice whose step does not divide its length; end the slice earlier, or slice the remaining element on its own and join both with gorgonia.Concat"
	case isLogSumExp(n):
		why = "Gorgonia v0.9.18 computes LogSumExp wrongly; use layer.CrossEntropy"
	}
	if why == "" {
		why = gorgoniaBug(n, graph)
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%s is refused: %s", describe(n), why)
}

// isMiscomputedMax reports whether a maximum is taken along an axis between others.
// Gorgonia's tensors then read the wrong numbers, unless the axis has length 2 or the
// axes before it, other than the first, have length 1.
func isMiscomputedMax(n *G.Node) bool {
	shape := op.Operands(n)[0].Shape().Clone()
	_, text, _ := strings.Cut(n.Op().String(), "[")
	var axes []int
	for _, axis := range strings.Fields(strings.TrimSuffix(text, "]")) {
		a, err := strconv.Atoi(axis)
		if err != nil {
			return true
		}
		axes = append(axes, a)
	}
	slices.Sort(axes)
	for i, axis := range axes {
		if axis -= i; axis >= len(shape) {
			return true
		}
		if axis > 1 && axis < len(shape)-1 && shape[1:axis].TotalSize() > 1 && shape[axis] != 2 {
			return true
		}
		shape = slices.Delete(shape, axis, axis+1)
	}
	return false
}

// isLogSumExp recognizes the nodes of gorgonia.LogSumExp: ln(Σexp(x−max) + max).
func isLogSumExp(n *G.Node) bool {
	if op.OpKind(n) != "elemUnaryOp" || n.Op().String() != "ln" {
		return false
	}
	sum := op.Operands(n)[0]
	if op.OpKind(sum) != "elemBinOp" {
		return false
	}
	for _, x := range op.Operands(sum) {
		if op.OpKind(x) == "maxOp" {
			return true
		}
	}
	return false
}

// isSignedNorm recognizes the nodes of gorgonia.Norm for p ≠ 2, (Σx^p)^(1/p), where p is odd
// or 0 and x may be negative. An even p needs no absolute value.
func isSignedNorm(n *G.Node) bool {
	base, inverse, ok := powerOf(n)
	if !ok || op.OpKind(base) != "sumOp" {
		return false
	}
	x, p, ok := powerOf(op.Operands(base)[0])
	if !ok || inverse != 1/p || p != 0 && math.Abs(math.Mod(float64(p), 2)) != 1 {
		return false
	}
	isNonNegative := op.OpKind(x) == "elemUnaryOp" && slices.Contains([]string{"abs", "square", "exp", "sigmoid"}, x.Op().String())
	return p == 0 || !isNonNegative
}

// powerOf reads base and exponent from a node of gorgonia.Pow with a constant float32
// exponent.
func powerOf(n *G.Node) (base *G.Node, exponent float32, ok bool) {
	if op.OpKind(n) != "elemBinOp" || !strings.HasPrefix(n.Op().String(), "^") {
		return nil, 0, false
	}
	in := op.Operands(n)
	if !isConstant(in[1]) || !in[1].IsScalar() {
		return nil, 0, false
	}
	exponent, ok = in[1].Value().Data().(float32)
	return in[0], exponent, ok
}

// isMiscountedSlice reports whether the step of a slice does not divide its length. Gorgonia
// then gives the node fewer elements than the slice has when it is computed.
func isMiscountedSlice(n *G.Node) bool {
	name := n.Op().String()
	var from, to, step int
	count, _ := fmt.Sscanf(name[strings.LastIndexAny(name, "[ ")+1:], "%d:%d:%d", &from, &to, &step)
	return count == 3 && step > 1 && (to-from)%step != 0
}
