package simd

import (
	"math"
	"strconv"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vec is a vector register. It has as many floats as the generator has lanes, unless the code
// states fewer.
type vec = reg.VecVirtual

// vector returns a register for all lanes.
func (g *generator) vector() vec {
	if g.lanes == 16 {
		return g.ZMM()
	}
	return g.YMM()
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

// bits returns a constant vector of equal words, num one of equal floats.
func (g *generator) bits(b uint32) Mem {
	name := "w" + strconv.FormatUint(uint64(b), 16)
	if g.lanes == 16 {
		name += "x16"
	}
	return g.words(name, g.lanes, func(int) uint32 { return b })
}

func (g *generator) num(x float64) Mem { return g.bits(math.Float32bits(float32(x))) }

// maskTable returns n words of ones and n of zeros. A load from word n-i gives the mask of the
// first i lanes.
func (g *generator) maskTable(n int) Mem {
	return g.words("masks"+strconv.Itoa(n), 2*n, func(i int) uint32 {
		if i < n {
			return math.MaxUint32
		}
		return 0
	})
}

func (g *generator) zero() vec {
	x := g.vector()
	g.VXORPS(x, x, x)
	return x
}

func (g *generator) copyOf(x Op) vec {
	y := g.vector()
	g.VMOVUPS(x, y) // constants of 64 bytes are not aligned to 64 bytes
	return y
}

func (g *generator) load(m Mem) vec { return g.copyOf(m) }

func (g *generator) store(x vec, m Mem) { g.VMOVUPS(x, m) }

// The operations below take operands in the order of the formula. The last may be in memory.

func (g *generator) add(x vec, y Op) vec { z := g.vector(); g.VADDPS(y, x, z); return z }
func (g *generator) sub(x vec, y Op) vec { z := g.vector(); g.VSUBPS(y, x, z); return z }
func (g *generator) mul(x vec, y Op) vec { z := g.vector(); g.VMULPS(y, x, z); return z }
func (g *generator) div(x vec, y Op) vec { z := g.vector(); g.VDIVPS(y, x, z); return z }
func (g *generator) and(x vec, y Op) vec { z := g.vector(); g.VANDPS(y, x, z); return z }
func (g *generator) or(x vec, y Op) vec  { z := g.vector(); g.VORPS(y, x, z); return z }

// max and min return y where x or y is NaN.
func (g *generator) max(x vec, y Op) vec { z := g.vector(); g.VMAXPS(y, x, z); return z }
func (g *generator) min(x vec, y Op) vec { z := g.vector(); g.VMINPS(y, x, z); return z }

// fma returns x*y+z, fnma returns z-x*y, rounded once.
func (g *generator) fma(x, y vec, z Op) vec {
	r := g.copyOf(x)
	g.VFMADD213PS(z, y, r)
	return r
}

func (g *generator) fnma(x, y vec, z Op) vec {
	r := g.copyOf(x)
	g.VFNMADD213PS(z, y, r)
	return r
}

// selectBySign returns negative where the sign bit of x is set, else positive.
func selectBySign(g *generator, x, negative, positive vec) vec {
	z := g.vector()
	if g.lanes == 16 {
		below := g.K()
		g.VPMOVD2M(x, below)
		g.VBLENDMPS(negative, positive, below, z)
		return z
	}
	g.VBLENDVPS(x, negative, positive, z)
	return z
}

// polynomial returns c[0] + c[1]x + …, with fused multiply-adds.
func polynomial(g *generator, x vec, c ...float64) vec {
	p := g.copyOf(g.num(c[len(c)-1]))
	for i := len(c) - 2; i >= 0; i-- {
		g.VFMADD213PS(g.num(c[i]), x, p)
	}
	return p
}

// transpose4x4 transposes the 4×4 floats in each half of four vectors.
func transpose4x4(g *generator, q [4]vec) (out [4]vec) {
	t := [4]vec{g.YMM(), g.YMM(), g.YMM(), g.YMM()}
	g.VUNPCKLPS(q[1], q[0], t[0])
	g.VUNPCKHPS(q[1], q[0], t[1])
	g.VUNPCKLPS(q[3], q[2], t[2])
	g.VUNPCKHPS(q[3], q[2], t[3])
	for i := range out {
		out[i] = g.YMM()
		g.VSHUFPS(U8([]int{0x44, 0xee}[i%2]), t[2+i/2], t[i/2], out[i])
	}
	return out
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
