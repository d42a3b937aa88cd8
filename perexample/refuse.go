package perexample

import (
	"fmt"
	"strings"

	"github.com/dptrain/dptrain/internal/op"
	G "gorgonia.org/gorgonia"
)

func describe(n *G.Node) string {
	if n.Op() == nil {
		return "node " + n.Name()
	}
	return line(fmt.Sprintf("node %s (%v)", n.Name(), n.Op()))
}

func mixes(n *G.Node, why string) error {
	return fmt.Errorf("%s mixes examples: %s; every example must go through the network alone", describe(n), why)
}

// refused are operations that cannot be trained on, with what to use instead.
var refused = map[string]string{
	"BatchNormOp":         "it mixes the examples of a microbatch; use layer.GroupNorm or layer.LayerNorm",
	"GroupNormOp":         "Gorgonia v0.9.18 prints the gradients of its GroupNorm, which are private; use layer.GroupNorm",
	"avgPoolOp":           "Gorgonia v0.9.18 computes it wrongly; use layer.AvgPool",
	"globalAveragePoolOp": "Gorgonia v0.9.18 computes it wrongly; use layer.GlobalAvgPool",
	"dropoutOp":           "what it draws for a record depends on how many came before it; use layer.Dropout",
	"randomOp":            "what it draws for a record depends on how many came before it; make it an input, or use layer.Dropout",
}

var refusedUnary = map[string]string{
	"log2":    "Gorgonia v0.9.18 differentiates Log2 wrongly; use Log and divide by ln 2",
	"invSqrt": "Gorgonia v0.9.18 differentiates InverseSqrt wrongly; use Inverse of Sqrt",
}

// refusal is why an operation cannot be trained on wherever it stands, or nil.
func refusal(n *G.Node) error {
	if n.Op() == nil {
		return nil
	}
	kind, name := op.Kind(n), n.Op().String()
	why := refused[kind]
	switch {
	case kind == "elemUnaryOp" && refusedUnary[name] != "":
		why = refusedUnary[name]
	case kind == "linAlgBinOp" && strings.Contains(name, "⊗"):
		why = "Gorgonia v0.9.18 computes OuterProd wrongly; use Mul of a column and a row"
	case confusedSlices(n):
		why = "Gorgonia v0.9.18 takes two slices for one where their bounds differ by 256, and joining slices its gradient; reshape an axis longer than 256 into two"
	case isLogSumExp(n):
		why = "Gorgonia v0.9.18 computes LogSumExp wrongly; use layer.CrossEntropy"
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%s is refused: %s", describe(n), why)
}

// confusedSlices reports whether slices may have been taken for each other:
// Gorgonia tells them apart by the last byte of their bounds. Slices of a short
// axis are safe, and so is a join whose equal parts do not lie 256 apart.
func confusedSlices(n *G.Node) bool {
	switch s := op.Canonical(n).(type) {
	case op.Slice:
		size := op.Operands(n)[0].Shape()[s.Axis]
		return size > 256 && s.Count < size
	case op.Concat:
		type part struct{ from, size int }
		seen := map[part]bool{}
		from := 0
		for _, x := range op.Operands(n) {
			size := x.Shape()[s.Axis]
			p := part{from % 256, size}
			if seen[p] {
				return true
			}
			seen[p] = true
			from += size
		}
	}
	return false
}

// isLogSumExp recognises what gorgonia.LogSumExp builds: ln(Σexp(x−max) + max).
func isLogSumExp(n *G.Node) bool {
	if op.Kind(n) != "elemUnaryOp" || n.Op().String() != "ln" {
		return false
	}
	sum := op.Operands(n)[0]
	if op.Kind(sum) != "elemBinOp" {
		return false
	}
	for _, x := range op.Operands(sum) {
		if op.Kind(x) == "maxOp" {
			return true
		}
	}
	return false
}
