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

// constantName is a constant's name in one line. Gorgonia calls one by its numbers that has none.
func constantName(n *G.Node) string {
	if op.OpKind(n) == "constantTensor" && n.Name() == fmt.Sprint(n.Value()) {
		return fmt.Sprintf("of shape %v", n.Shape())
	}
	return oneLine(n.Name())
}

func mixesExamples(n *G.Node, why string) error {
	return fmt.Errorf("%s mixes examples: %s; every example must go through the network alone", describe(n), why)
}

// unsupportedOps are operations that cannot be trained on, with what to use instead.
var unsupportedOps = map[string]string{
	"BatchNormOp":         "it mixes the examples of a microbatch; use layer.GroupNorm or layer.LayerNorm",
	"GroupNormOp":         "Gorgonia v0.9.18 prints the gradients of its GroupNorm, which are private; use layer.GroupNorm",
	"avgPoolOp":           "Gorgonia v0.9.18 computes it wrongly; use layer.AvgPool",
	"globalAveragePoolOp": "Gorgonia v0.9.18 computes it wrongly; use layer.GlobalAvgPool",
	"dropoutOp":           "what it draws for a record depends on how many came before it; use layer.Dropout",
	"randomOp":            "what it draws for a record depends on how many came before it; make it an input, or use layer.Dropout",
}

var unsupportedUnary = map[string]string{
	"log2":    "Gorgonia v0.9.18 differentiates Log2 wrongly; use Log and divide by ln 2",
	"invSqrt": "Gorgonia v0.9.18 differentiates InverseSqrt wrongly; use Inverse of Sqrt",
}

// checkOperations says which node cannot be trained on wherever it stands.
func checkOperations(net *Network) error {
	for _, n := range net.Loss.Graph().ByName("") {
		if n.Op() == nil {
			return fmt.Errorf("a variable of shape %v has no name: Gorgonia v0.9.18 takes two such for one; give each its own by gorgonia.WithName", n.Shape())
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
		why = "Gorgonia v0.9.18 computes Max wrongly along an axis between others; bring it to the end by Transpose"
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

// isMiscomputedMax reports whether a maximum is taken along an axis that has others but the first
// before it and some behind: Gorgonia's tensors then read other numbers, unless it is of length 2.
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

// isLogSumExp recognises what gorgonia.LogSumExp builds: ln(Σexp(x−max) + max).
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
