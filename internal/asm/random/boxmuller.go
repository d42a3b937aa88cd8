package random

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// constants are those of BoxMuller in Go, which explains them. Each fills a row of eight
// lanes, for AVX2; AVX-512 broadcasts the first.
type constants struct {
	c     *build.Context
	table operand.Mem
	rows  int
}

func (k *constants) bits(v uint32) operand.Mem {
	at := k.table.Offset(32 * k.rows)
	for lane := range 8 {
		k.c.AddDatum(32*k.rows+4*lane, operand.U32(v))
	}
	k.rows++
	return at
}

func (k *constants) float(v float32) operand.Mem { return k.bits(math.Float32bits(v)) }

func (k *constants) floats(vs ...float32) (out []operand.Mem) {
	for _, v := range vs {
		out = append(out, k.float(v))
	}
	return out
}

type coefficients struct {
	mask24, mask16, maskWord, one32, mantissa, exponent, sign, swap, sqrtHalf operand.Mem
	topScale, midScale, lowScale, angleScale, half, one, minusOne, minus2Ln2  operand.Mem
	log, sin, cos                                                             []operand.Mem // highest first
}

func boxMuller(c *build.Context) {
	k := &constants{c: c, table: c.StaticGlobal("boxMullerConstants")}
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	co := coefficients{
		mask24:     k.bits(0xffffff),
		mask16:     k.bits(0xffff),
		maskWord:   k.bits(0x3ffffffe),
		one32:      k.bits(1),
		mantissa:   k.bits(0x7fffff),
		exponent:   k.bits(0xff800000),
		sign:       k.bits(1 << 31),
		swap:       k.bits(1 << 29),
		sqrtHalf:   k.bits(0x3f3504f3),
		topScale:   k.float(0x1p-24),
		midScale:   k.float(0x1p-48),
		lowScale:   k.float(0x1p-64),
		angleScale: k.float(0x1p-30),
		half:       k.float(0.5),
		one:        k.float(1),
		minusOne:   k.float(-1),
		minus2Ln2:  k.float(-0x1.62e430p+0),
		log: k.floats(0x1.38b590p-3, -0x1.055b6cp-2, 0x1.0d8540p-2, -0x1.22da1cp-2, 0x1.547244p-2,
			-0x1.99a008p-2, 0x1.000226p-1, -0x1.555554p-1, 1, -2),
		sin: k.floats(-0x1.2d9302p-15, 0x1.465e92p-9, -0x1.4abbbap-4, 0x1.921fb6p-1),
		cos: k.floats(0x1.d9d57ep-19, -0x1.55c5e0p-12, 0x1.03c1dep-6, -0x1.3bd3ccp-2, 1),
	}
	boxMullers(code{c, false}, co)
	boxMullers(code{c, true}, co)
}

// code is written for registers of 16 lanes (wide, AVX-512) or of 8 (AVX2). Its
// methods combine a register with a constant.
type code struct {
	*build.Context
	wide bool
}

func (c code) register() reg.VecVirtual {
	if c.wide {
		return c.ZMM()
	}
	return c.YMM()
}

func (c code) load(from operand.Mem) reg.VecVirtual {
	to := c.register()
	c.VMOVUPS(from, to)
	return to
}

// either returns an instruction with a constant operand, which AVX-512 broadcasts.
func (c code) either(narrow, wide func(...operand.Op), operands ...operand.Op) {
	if c.wide {
		wide(operands...)
	} else {
		narrow(operands...)
	}
}

func (c code) add(k operand.Mem, from, to reg.VecVirtual) {
	c.either(c.VADDPS, c.VADDPS_BCST, k, from, to)
}
func (c code) mul(k operand.Mem, from, to reg.VecVirtual) {
	c.either(c.VMULPS, c.VMULPS_BCST, k, from, to)
}

func (c code) addBits(k operand.Mem, from, to reg.VecVirtual) {
	c.either(c.VPADDD, c.VPADDD_BCST, k, from, to)
}

func (c code) subBits(k operand.Mem, from, to reg.VecVirtual) {
	c.either(c.VPSUBD, c.VPSUBD_BCST, k, from, to)
}

func (c code) and(k operand.Mem, from, to reg.VecVirtual) {
	if c.wide {
		c.VPANDD_BCST(k, from, to)
	} else {
		c.VPAND(k, from, to)
	}
}

func (c code) or(k operand.Op, from, to reg.VecVirtual) {
	_, constant := k.(operand.Mem)
	switch {
	case c.wide && constant:
		c.VPORD_BCST(k, from, to)
	case c.wide:
		c.VPORD(k, from, to)
	default:
		c.VPOR(k, from, to)
	}
}

func (c code) xor(with, from, to reg.VecVirtual) {
	if c.wide {
		c.VPXORD(with, from, to)
	} else {
		c.VPXOR(with, from, to)
	}
}

// polynomial evaluates by Horner's rule, coefficients highest first.
func (c code) polynomial(z reg.VecVirtual, coefficients []operand.Mem) reg.VecVirtual {
	p := c.register()
	c.mul(coefficients[0], z, p)
	for i, k := range coefficients[1:] {
		if i > 0 {
			c.VMULPS(z, p, p)
		}
		c.add(k, p, p)
	}
	return p
}

// choose returns a and b, exchanged in the lanes where the bit of swap is set.
func (c code) choose(bits reg.VecVirtual, swap operand.Mem, a, b reg.VecVirtual) (x, y reg.VecVirtual) {
	x, y = c.register(), c.register()
	if c.wide {
		set := c.K()
		c.VPTESTMD_BCST(swap, bits, set)
		c.VBLENDMPS(b, a, set, x)
		c.VBLENDMPS(a, b, set, y)
		return x, y
	}
	set := c.register() // by the sign bit
	c.VPSLLD(operand.U8(2), bits, set)
	c.VBLENDVPS(set, b, a, x)
	c.VBLENDVPS(set, a, b, y)
	return x, y
}

func boxMullers(c code, co coefficients) {
	set, width := "AVX2", 8
	if c.wide {
		set, width = "AVX512", 16
	}
	leaf(c.Context, "boxMullers"+set, "func(dst *[512]float32, words *[768]uint32)",
		"boxMullers"+set+" is boxMullersGeneric for "+set+".")
	dst := operand.Mem{Base: c.Load(c.Param("dst"), c.GP64())}
	words := operand.Mem{Base: c.Load(c.Param("words"), c.GP64())}
	n := c.GP64()
	c.MOVQ(operand.U32(16), n)
	repeat(c.Context, "word", n, func() {
		for lane := 0; lane < lanes; lane += width {
			boxMullerLanes(c, co, words.Offset(4*lane), dst.Offset(4*lane))
		}
		c.ADDQ(operand.U32(4*lanes), words.Base)
		c.ADDQ(operand.U32(8*lanes), dst.Base)
	})
	c.VZEROUPPER()
	c.RET()
}

// boxMullerLanes follows BoxMuller step by step.
func boxMullerLanes(c code, co coefficients, words, dst operand.Mem) {
	hi, low := c.load(words), c.load(words.Offset(groupBytes))
	top, mid := c.register(), c.register()
	c.VPSRLD(operand.U8(8), hi, top)
	c.VCVTDQ2PS(top, top)
	c.mul(co.topScale, top, top)
	c.VPSLLD(operand.U8(16), hi, hi)
	c.VPSRLD(operand.U8(16), low, mid)
	c.or(hi, mid, mid)
	c.and(co.mask24, mid, mid)
	c.VCVTDQ2PS(mid, mid)
	c.mul(co.midScale, mid, mid)
	c.and(co.mask16, low, low)
	c.VCVTDQ2PS(low, low)
	c.add(co.half, low, low)
	c.mul(co.lowScale, low, low)

	v, rest := c.register(), c.register()
	c.VADDPS(low, mid, mid)
	c.VADDPS(mid, top, v)
	c.VSUBPS(top, v, rest)
	c.VSUBPS(rest, mid, rest)

	f, e, scale := c.register(), c.register(), c.register()
	c.subBits(co.sqrtHalf, v, v)
	c.VPSRAD(operand.U8(23), v, e)
	c.VCVTDQ2PS(e, e)
	c.and(co.mantissa, v, f)
	c.addBits(co.sqrtHalf, f, f)
	c.and(co.exponent, v, v)
	c.VBROADCASTSS(co.one, scale)
	c.VPSUBD(v, scale, scale)
	c.add(co.minusOne, f, f)
	c.VMULPS(scale, rest, rest)
	c.VADDPS(rest, f, f)

	r := c.polynomial(f, co.log)
	c.VMULPS(f, r, r)
	c.mul(co.minus2Ln2, e, e)
	c.VADDPS(r, e, r)
	c.VSQRTPS(r, r)

	xSign := c.load(words.Offset(2 * groupBytes))
	ySign, w, z := c.register(), c.register(), c.register()
	c.VPSLLD(operand.U8(1), xSign, ySign)
	c.and(co.maskWord, ySign, w)
	c.or(co.one32, w, w)
	c.VCVTDQ2PS(w, w)
	c.mul(co.angleScale, w, w)
	c.VMULPS(w, w, z)
	sin, cos := c.polynomial(z, co.sin), c.polynomial(z, co.cos)
	c.VMULPS(w, sin, sin)
	x, y := c.choose(xSign, co.swap, cos, sin)
	c.VMULPS(r, x, x)
	c.VMULPS(r, y, y)
	c.and(co.sign, xSign, xSign)
	c.xor(xSign, x, x)
	c.and(co.sign, ySign, ySign)
	c.xor(ySign, y, y)
	c.VMOVUPS(x, dst)
	c.VMOVUPS(y, dst.Offset(4*lanes))
}
