package perexample

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/internal/op"
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
	"BatchNormOp":         "it mixes the examples of a microbatch; use layer.GroupNorm or layer.LayerNorm",
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
	for _, end := range []*G.Node{net.Loss, net.Output, net.Losses} {
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
