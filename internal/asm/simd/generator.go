package simd

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"

	"github.com/dptrain/dptrain/internal/asm/amd64"
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

// Files are the generated files of package simd.
var Files = []amd64.File{
	file("gemm", gemmFile),
	file("pack", packFile),
	file("pointwise", pointwiseFile),
	file("lookup", lookupFile),
	file("recurrent", recurrentFile),
	file("reduce", reduceFile),
	file("window", windowFile),
	file("winograd", winogradFile),
}

func file(name string, fill func(*generator)) amd64.File {
	return amd64.File{Name: name, Fill: func(c *build.Context) {
		fill(&generator{Context: c, lanes: 8, constants: map[string]operand.Mem{}})
	}}
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
