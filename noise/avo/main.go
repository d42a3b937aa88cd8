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
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	for name, write := range map[string]func(*build.Context){
		"chacha":    chacha,
		"boxmuller": boxMuller,
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
