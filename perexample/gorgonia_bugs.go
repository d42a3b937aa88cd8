package perexample

import (
	"fmt"
	"strings"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
)

// Gorgonia keeps one node for all nodes with the same hash, type and shape. Its hashes
// leave out attributes, so that it silently merges nodes that differ while the graph is
// built. The network is then not the one that was written, and the lost node cannot be
// recovered. The graph only shows how often each node was made and used.

// gorgoniaBug explains why a node may also stand for another node. It is empty if the node
// cannot.
func gorgoniaBug(n *G.Node, graph edgeCounts) string {
	switch {
	case hasAmbiguousSlices(n):
		return "Gorgonia v0.9.18 merges two slices whose bounds differ by 256, and so does the gradient of a concatenation; reshape an axis longer than 256 into two"
	case op.OpKind(n) == "softmaxOp" && graph.timesMade(n) > 1:
		return "Gorgonia v0.9.18 merges SoftMax and LogSoftMax of one node; compute LogSoftMax, and SoftMax as its Exp"
	case op.OpKind(n) == "im2colOp" && graph.timesMade(n) > 1 && hasAmbiguousDilation(n):
		return "Gorgonia v0.9.18 merges convolutions of one input that differ in their dilation only and have outputs of the same size; use layer.Conv2D"
	case op.OpKind(n) == "constantTensor" && graph.timesUsed(n) > 1 && isPrintedAbridged(n):
		return "Gorgonia v0.9.18 merges constants that it prints alike, and it prints only the ends of long ones; make the constant with gorgonia.NodeFromAny, with its own name"
	}
	return ""
}

// edgeCounts counts how often each edge of a graph was made, from operand to user.
type edgeCounts map[[2]*G.Node]int

func countEdges(g *G.ExprGraph) edgeCounts {
	count := edgeCounts{}
	for it := g.Edges(); it.Next(); {
		e := it.Edge()
		count[[2]*G.Node{e.From().(*G.Node), e.To().(*G.Node)}]++
	}
	return count
}

// timesMade is how often a node with an operand was made: each time adds an edge.
func (e edgeCounts) timesMade(n *G.Node) int { return e[[2]*G.Node{op.Operands(n)[0], n}] }

// timesUsed is how often a node was an operand, counting each time that a user was made.
func (e edgeCounts) timesUsed(n *G.Node) (count int) {
	for edge, many := range e {
		if edge[0] == n {
			count += many
		}
	}
	return count
}

// hasAmbiguousDilation reports whether another dilation gives a convolution the same
// number of windows. Gorgonia's hash leaves the dilation out.
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

// isPrintedAbridged reports whether some numbers of a constant are not printed.
func isPrintedAbridged(n *G.Node) bool {
	text := fmt.Sprint(n.Value())
	return strings.Contains(text, "...") || strings.Contains(text, ".\n.\n.\n")
}

// hasAmbiguousSlices reports whether Gorgonia may have merged slices: it hashes only the
// last byte of their bounds. Slices of an axis of at most 256 are safe. So is a
// concatenation in which no two parts of equal size begin a multiple of 256 apart.
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
