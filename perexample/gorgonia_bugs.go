package perexample

import (
	"fmt"
	"strings"

	"github.com/dptrain/dptrain/internal/op"
	G "gorgonia.org/gorgonia"
)

// Gorgonia keeps one node of all that have the same hash, type and shape. What its hashes
// leave out makes it take nodes for each other while the graph is built, and say nothing: the
// network is then another than was written down. Which node was meant is lost. What is left is
// how often nodes were made and used.

// gorgoniaBug says why a node may stand for another one, too; empty where it does not.
func gorgoniaBug(n *G.Node, graph edgeCounts) string {
	switch {
	case hasAmbiguousSlices(n):
		return "Gorgonia v0.9.18 takes two slices for one where their bounds differ by 256, and joining slices its gradient; reshape an axis longer than 256 into two"
	case op.OpKind(n) == "softmaxOp" && graph.timesMade(n) > 1:
		return "Gorgonia v0.9.18 takes SoftMax and LogSoftMax of one node for each other; make the one with LogSoftMax, and the other with Exp of it"
	case op.OpKind(n) == "im2colOp" && graph.timesMade(n) > 1 && hasAmbiguousDilation(n):
		return "Gorgonia v0.9.18 takes convolutions of one input for one that differ in dilation alone and give pictures of one size; use layer.Conv2D"
	case op.OpKind(n) == "constantTensor" && graph.timesUsed(n) > 1 && isPrintedAbridged(n):
		return "Gorgonia v0.9.18 takes constants for one that it prints alike, and of long ones it prints the ends; make it with gorgonia.NodeFromAny, with a name of its own"
	}
	return ""
}

// edgeCounts counts how often a graph's edges were made, from operands to users.
type edgeCounts map[[2]*G.Node]int

func countEdges(g *G.ExprGraph) edgeCounts {
	count := edgeCounts{}
	for it := g.Edges(); it.Next(); {
		e := it.Edge()
		count[[2]*G.Node{e.From().(*G.Node), e.To().(*G.Node)}]++
	}
	return count
}

// timesMade is how often a node with an operand was made: an edge comes from it each time.
func (e edgeCounts) timesMade(n *G.Node) int { return e[[2]*G.Node{op.Operands(n)[0], n}] }

// timesUsed is how often a node was given to others, each time that they were made.
func (e edgeCounts) timesUsed(n *G.Node) (count int) {
	for edge, many := range e {
		if edge[0] == n {
			count += many
		}
	}
	return count
}

// hasAmbiguousDilation reports whether the windows of a convolution could be as many with another
// dilation, which Gorgonia's hash leaves out.
func hasAmbiguousDilation(n *G.Node) bool {
	w, picture := op.Canonical(n).(op.Im2Col).Window, op.Operands(n)[0].Shape()
	another := func(size, kernel, pad, stride, dilation int) bool {
		room := size + 2*pad - 1
		for d := 1; kernel > 1 && d*(kernel-1) <= room; d++ {
			if d != dilation && (room-d*(kernel-1))/stride == (room-dilation*(kernel-1))/stride {
				return true
			}
		}
		return false
	}
	return another(picture[2], w.KernelH, w.PadH, w.StrideH, w.DilationH) || another(picture[3], w.KernelW, w.PadW, w.StrideW, w.DilationW)
}

// isPrintedAbridged reports whether not all numbers of a constant are printed.
func isPrintedAbridged(n *G.Node) bool {
	text := fmt.Sprint(n.Value())
	return strings.Contains(text, "...") || strings.Contains(text, ".\n.\n.\n")
}

// hasAmbiguousSlices reports whether slices may have been taken for each other:
// Gorgonia tells them apart by the last byte of their bounds. Slices of a short
// axis are safe, and so is a join whose equal parts do not lie 256 apart.
func hasAmbiguousSlices(n *G.Node) bool {
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
