// Package lattice describes the amd64 assembly of package lattice: stochastic rounding, integer
// products and reductions for AVX2, AVX-512 and VNNI.
package lattice

import (
	"fmt"
	"strconv"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/dptrain/dptrain/internal/asm/amd64"
)

// generator builds one assembly file.
type generator struct {
	*build.Context
	suffix    string // of the names of functions: AVX2, AVX512 or VNNI
	lanes     int    // words of 32 bits in a vector: 8 for AVX2, 16 for AVX-512
	labels    int
	constants map[string]Mem
}

// Files are the generated files of package lattice.
var Files = []amd64.File{
	file("quantize", quantizeFile),
	file("product", productFile),
	file("reduce", reduceFile),
	file("unfold", unfoldFile),
}

func file(name string, fill func(*generator)) amd64.File {
	return amd64.File{Name: name, Fill: func(c *build.Context) {
		fill(&generator{Context: c, constants: map[string]Mem{}})
	}}
}

// forEachSet emits code for AVX2 and for AVX-512.
func (g *generator) forEachSet(emit func()) {
	g.suffix, g.lanes = "AVX2", 8
	emit()
	g.suffix, g.lanes = "AVX512", 16
	emit()
}

// function starts a leaf function that does not retain its pointers. contract names the
// declaration in package lattice whose comment states what it computes.
func (g *generator) function(name, signature, contract string) {
	g.Function(name + g.suffix)
	g.Doc(name + g.suffix + " implements " + contract + ".")
	g.Attributes(attr.NOSPLIT)
	g.SignatureExpr(signature)
	g.Pragma("noescape")
}

// leave ends a function.
func (g *generator) leave() {
	g.VZEROUPPER()
	g.RET()
}

// label returns a unique label.
func (g *generator) label(stem string) string {
	g.labels++
	return fmt.Sprintf("%s_%d", stem, g.labels)
}

// repeat emits a loop that runs body n times, n at least 1. It counts n down to 0.
func (g *generator) repeat(n reg.Register, body func()) {
	loop := g.label("loop")
	g.Label(loop)
	body()
	g.DECQ(n)
	g.JNE(LabelRef(loop))
}

// forChunks emits a loop that runs body while n ≥ step and subtracts step from n each time.
func (g *generator) forChunks(n reg.Register, step int, body func()) {
	loop, end := g.label("chunk"), g.label("end")
	g.SUBQ(U8(step), n)
	g.JLT(LabelRef(end))
	g.Label(loop)
	body()
	g.SUBQ(U8(step), n)
	g.JGE(LabelRef(loop))
	g.Label(end)
	g.ADDQ(U8(step), n)
}

// param loads an argument of 8 bytes.
func (g *generator) param(name string) reg.Register { return g.Load(g.Param(name), g.GP64()) }

// argument returns the memory of an argument.
func (g *generator) argument(name string) Mem {
	a, err := g.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return a.Addr
}

// vec is a vector register of the generator's lanes, unless the code states fewer.
type vec = reg.VecVirtual

func (g *generator) vector() vec {
	if g.lanes == 16 {
		return g.ZMM()
	}
	return g.YMM()
}

// half returns a register of half as many bits as vector.
func (g *generator) half() vec {
	if g.lanes == 16 {
		return g.YMM()
	}
	return g.XMM()
}

func (g *generator) zero() vec {
	x := g.vector()
	g.clear(x)
	return x
}

// clear sets a vector to zeros.
func (g *generator) clear(x vec) {
	if g.lanes == 16 {
		g.VPXORD(x, x, x)
	} else {
		g.VPXOR(x, x, x)
	}
}

func (g *generator) load(m Mem, x vec) {
	if g.lanes == 16 {
		g.VMOVDQU32(m, x)
	} else {
		g.VMOVDQU(m, x)
	}
}

func (g *generator) store(x vec, m Mem) {
	if g.lanes == 16 {
		g.VMOVDQU32(x, m)
	} else {
		g.VMOVDQU(x, m)
	}
}

// words returns a constant of n words in memory.
func (g *generator) words(name string, n int, word func(i int) uint32) Mem {
	if m, ok := g.constants[name]; ok {
		return m
	}
	m := g.StaticGlobal(name)
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range n {
		g.AddDatum(4*i, U32(word(i)))
	}
	g.constants[name] = m
	return m
}

// constant returns a register of equal words.
func (g *generator) constant(b uint32) vec {
	x := g.vector()
	g.VPBROADCASTD(g.words("w"+strconv.FormatUint(uint64(b), 16), 1, func(int) uint32 { return b }), x)
	return x
}

// sumQuads returns the sum of the words of 64 bits of x. It destroys x.
func (g *generator) sumQuads(x vec) reg.Register {
	if g.lanes == 16 {
		high := g.YMM()
		g.VEXTRACTI64X4(U8(1), x, high)
		g.VPADDQ(high, x.AsY(), x.AsY())
	}
	high, sum := g.XMM(), g.GP64()
	g.VEXTRACTI128(U8(1), x.AsY(), high)
	g.VPADDQ(high, x.AsX(), x.AsX())
	g.VPSHUFD(U8(0xee), x.AsX(), high)
	g.VPADDQ(high, x.AsX(), x.AsX())
	g.VMOVQ(x.AsX(), sum)
	return sum
}
