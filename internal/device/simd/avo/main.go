// Command avo writes the amd64 assembly of package simd:
//
//	go run . -out ..
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

// generator builds one assembly file. Its methods are the primitives of kernels: loops,
// arguments, constants and vector arithmetic.
type generator struct {
	*build.Context
	lanes     int // floats in a vector: 8 for AVX2, 16 for AVX-512
	labels    int
	constants map[string]operand.Mem
}

// label returns a unique label.
func (g *generator) label(stem string) string {
	g.labels++
	return fmt.Sprintf("%s_%d", stem, g.labels)
}

// files lists the generated files: zz_<name>_amd64.s, and its Go declarations in
// zz_<name>_amd64.go.
var files = []struct {
	name string
	fill func(*generator)
}{
	{"gemm", gemmFile},
	{"pack", packFile},
	{"pointwise", pointwiseFile},
	{"lookup", lookupFile},
	{"recurrent", recurrentFile},
	{"reduce", reduceFile},
	{"window", windowFile},
	{"winograd", winogradFile},
}

func main() {
	// avo defines flags in the default flag set, so this command uses its own.
	flags := flag.NewFlagSet("avo", flag.ExitOnError)
	out := flags.String("out", "..", "folder the files are written to")
	_ = flags.Parse(os.Args[1:])
	for _, f := range files {
		if err := write(*out, f.name, f.fill); err != nil {
			fmt.Fprintf(os.Stderr, "avo: %s: %v\n", f.name, err)
			os.Exit(1)
		}
	}
}

// write generates one file and its declarations.
func write(dir, name string, fill func(*generator)) error {
	g := &generator{Context: build.NewContext(), lanes: 8, constants: map[string]operand.Mem{}}
	g.ConstraintExpr("!noasm")
	fill(g)
	file, err := g.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return err
	}
	if err := onlyAVX2(file); err != nil {
		return err
	}
	cfg := printer.Config{Argv: []string{"go", "run", ".", "-out", ".."}, Name: "avo", Pkg: "simd"}
	for ext, p := range map[string]printer.Printer{".s": printer.NewGoAsm(cfg), ".go": printer.NewStubs(cfg)} {
		text, err := p.Print(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "zz_"+name+"_amd64"+ext), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// function starts a leaf function that does not retain its pointers.
func (g *generator) function(name, signature string) {
	g.Function(name)
	g.Doc(name + " implements " + contract(name) + ".")
	g.Attributes(attr.NOSPLIT)
	g.SignatureExpr(signature)
	g.Pragma("noescape")
}

// contract names the declaration in package simd whose comment states what a function
// computes.
func contract(name string) string {
	name = strings.TrimSuffix(strings.TrimSuffix(name, "AVX2"), "AVX512")
	for _, f := range []string{"copyTap", "maxPoolRows"} {
		if stride, ok := strings.CutPrefix(name, f); ok {
			return f + "Func for stride " + stride
		}
	}
	if f, ok := strings.CutPrefix(name, "winograd"); ok {
		last := len(f) - 1
		return fmt.Sprintf("winogradKernels.%s for %s taps", strings.ToLower(f[:last]), f[last:])
	}
	return "kernels." + name
}

// onlyAVX2 returns an error if a function named for AVX2 uses one of the vector registers from
// 16 on, which only AVX-512 has.
func onlyAVX2(file *ir.File) error {
	for _, f := range file.Functions() {
		if !strings.HasSuffix(f.Name, "AVX2") {
			continue
		}
		for _, i := range f.Instructions() {
			for _, r := range append(i.InputRegisters(), i.OutputRegisters()...) {
				if p, ok := r.(reg.Physical); ok && r.Kind() == reg.KindVector && p.PhysicalIndex() >= 16 {
					return fmt.Errorf("%s needs more than the 16 vector registers of AVX2", f.Name)
				}
			}
		}
	}
	return nil
}
