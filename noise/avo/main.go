// Command avo writes the amd64 assembly of package noise, zz_*_amd64.s and its
// Go declarations, into the parent folder. Run it from the root:
//
//	go generate ./noise
package main

import (
	"log"
	"os"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	for name, write := range map[string]func(*build.Context){
		"chacha":    chacha,
		"boxmuller": boxMuller,
		"rounded":   rounded,
	} {
		if err := generate("../zz_"+name+"_amd64", write); err != nil {
			log.Fatalf("%s: %v", name, err)
		}
	}
}

func generate(path string, write func(*build.Context)) error {
	c := build.NewContext()
	c.ConstraintExpr("!noasm")
	write(c)
	file, err := c.Result()
	if err != nil {
		return err
	}
	for _, f := range file.Functions() {
		f.Nodes = interleaved(f.Nodes)
	}
	if err := pass.Compile.Execute(file); err != nil {
		return err
	}
	cfg := printer.Config{Name: "avo", Argv: []string{"go", "generate"}, Pkg: "noise"}
	for suffix, p := range map[string]printer.Printer{
		".s":  printer.NewGoAsm(cfg),
		".go": printer.NewStubs(cfg),
	} {
		text, err := p.Print(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path+suffix, text, 0o644); err != nil {
			return err
		}
	}
	return nil
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
