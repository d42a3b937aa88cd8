// Package random describes the amd64 assembly of package random: ChaCha20, Box–Muller and correctly
// rounded Gaussian noise for AVX2 and AVX-512.
package random

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/dptrain/dptrain/internal/asm/amd64"
)

// Files are the generated files of package random.
var Files = []amd64.File{
	{Name: "chacha", Fill: chacha, Arrange: interleaved},
	{Name: "boxmuller", Fill: boxMuller, Arrange: interleaved},
	{Name: "rounded", Fill: rounded, Arrange: interleaved},
}

// leaf begins a function that calls no function and keeps no pointer.
func leaf(c *build.Context, name, signature, doc string) {
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.Pragma("noescape")
	c.SignatureExpr(signature)
	c.Doc(doc)
}

// repeat emits a loop that runs body n times, n at least one, and counts n down to 0.
func repeat(c *build.Context, name string, n reg.Register, body func()) {
	c.Label(name)
	body()
	c.DECQ(n)
	c.JNZ(operand.LabelRef(name))
}

// Marks around the pieces of code that interleave combines.
const firstPiece, nextPiece, lastPiece = "interleave", "with", "end"

// interleave emits independent pieces of code without labels, one instruction of each in turn.
// A processor looks ahead by about a hundred instructions. Where a piece is one long chain of
// dependent instructions, it then finds others to execute.
func interleave(c *build.Context, pieces ...func()) {
	for i, piece := range pieces {
		c.Comment([]string{firstPiece, nextPiece}[min(i, 1)])
		piece()
	}
	c.Comment(lastPiece)
}

// interleaved replaces the marks.
func interleaved(nodes []ir.Node) (out []ir.Node) {
	var pieces [][]ir.Node
	for _, n := range nodes {
		mark := ""
		if c, ok := n.(*ir.Comment); ok {
			mark = c.Lines[0]
		}
		switch mark {
		case firstPiece:
			pieces = make([][]ir.Node, 1)
		case nextPiece:
			pieces = append(pieces, nil)
		case lastPiece:
			for at, more := 0, true; more; at++ {
				more = false
				for _, p := range pieces {
					if at < len(p) {
						out, more = append(out, p[at]), true
					}
				}
			}
			pieces = nil
		default:
			if pieces == nil {
				out = append(out, n)
			} else {
				pieces[len(pieces)-1] = append(pieces[len(pieces)-1], n)
			}
		}
	}
	return out
}
