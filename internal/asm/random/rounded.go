package random

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// roundedConstants are those of rounded32.go, which explains them.
type roundedConstants struct {
	nearOne, excluded, exponent, sqrtHalf, unit, two32, minusOne, minus2Ln2, angleScale, sign, swap operand.Mem
	log, sin, cos                                                                                   []operand.Mem // highest first
}

func rounded(c *build.Context) {
	k := &constants{c: c, table: c.StaticGlobal("roundedConstants")}
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	const nearOne, excluded = 1 << 16, 1<<19 + 1<<16
	co := roundedConstants{
		nearOne:    k.bits(nearOne),
		excluded:   k.bits(excluded),
		exponent:   k.bits(0xff800000),
		sqrtHalf:   k.bits(0x3f3504f3 + 32<<23),
		unit:       k.bits(math.Float32bits(0x1p-32)),
		two32:      k.float(0x1p32),
		minusOne:   k.float(-1),
		minus2Ln2:  k.float(-0x1.62e430p+0),
		angleScale: k.float(0x1p-31),
		sign:       k.bits(1 << 31),
		swap:       k.bits(1 << 30),
		log: k.floats(-0x1.645edcp-3, 0x1.2432bep-2, -0x1.317452p-2, 0x1.538248p-2,
			-0x1.98d7f4p-2, 0x1.000382p-1, -0x1.5556d8p-1, 1, -2),
		sin: k.floats(-0x1.2cfcc8p-15, 0x1.465a72p-9, -0x1.4abba8p-4, 0x1.921fb4p-1),
		cos: k.floats(-0x1.4f107ap-12, 0x1.03b3bep-6, -0x1.3bd3aep-2, 1),
	}
	signed := co // AVX2 has only signed comparisons
	signed.nearOne = k.bits(1<<31 + nearOne)
	signed.excluded = k.bits(1<<31 + excluded)
	roundsAVX512(code{c, true}, co)
	roundsAVX2(code{c, false}, signed)
}

const roundsSignature = "func(sums *[512]int64, words *[512]uint32, undecided *[8]uint64, scale, slope, base float32, bits uint64)"

// parameter returns the place of a float32 among the arguments. Its load must not be an SSE
// instruction: these wait where the upper halves of registers are in use.
func parameter(c *build.Context, name string) operand.Mem {
	p, err := c.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return p.Addr
}

// fused sets sum to x·y + k.
func (c code) fused(x reg.VecVirtual, k operand.Mem, p reg.VecVirtual) {
	c.either(c.VFMADD213PS, c.VFMADD213PS_BCST, k, x, p)
}

// fusedPolynomial evaluates by Horner's rule with fused multiply-adds, coefficients highest first.
func (c code) fusedPolynomial(z reg.VecVirtual, coefficients []operand.Mem) reg.VecVirtual {
	p := c.register()
	c.VBROADCASTSS(coefficients[0], p)
	for _, k := range coefficients[1:] {
		c.fused(z, k, p)
	}
	return p
}

// fastPairs follows fastPair: it returns r and the normals divided by r.
func (c code) fastPairs(co roundedConstants, integer, angle reg.VecVirtual) (r, x, y reg.VecVirtual) {
	t, high := c.register(), c.register()
	c.VCVTDQ2PS(integer, t)
	c.VPSRAD(operand.U8(31), integer, high)
	c.and(co.two32, high, high)
	b, e, unit := c.register(), c.register(), c.register()
	c.VADDPS(t, high, b)
	c.subBits(co.sqrtHalf, b, b)
	c.VPSRAD(operand.U8(23), b, e)
	c.VCVTDQ2PS(e, e)
	c.and(co.exponent, b, b)
	c.VBROADCASTSS(co.unit, unit)
	c.VPSUBD(b, unit, unit)
	f := high
	c.fused(unit, co.minusOne, f)
	c.VFMADD231PS(unit, t, f)
	p := c.fusedPolynomial(f, co.log)
	c.mul(co.minus2Ln2, e, e)
	c.VFMADD231PS(f, p, e)
	r = e
	c.VSQRTPS(e, r)

	w, z := c.register(), c.register()
	c.VPSLLD(operand.U8(2), angle, w)
	c.VCVTDQ2PS(w, w)
	c.mul(co.angleScale, w, w)
	c.VMULPS(w, w, z)
	sin, cos := c.fusedPolynomial(z, co.sin), c.fusedPolynomial(z, co.cos)
	c.VMULPS(w, sin, sin)
	if c.wide {
		c.VPTERNLOGD_BCST(operand.U8(0x78), co.sign, angle, cos) // cos ^ angle & sign
		swap := c.K()
		x, y = c.register(), c.register()
		c.VPTESTMD_BCST(co.swap, angle, swap)
		c.VBLENDMPS(sin, cos, swap, x)
		c.VBLENDMPS(cos, sin, swap, y)
		return r, x, y
	}
	sign := c.register()
	c.VPAND(co.sign, angle, sign)
	c.VPXOR(sign, cos, cos)
	c.VPSLLD(operand.U8(1), angle, angle)
	x, y = c.register(), c.register()
	c.VBLENDVPS(angle, sin, cos, x)
	c.VBLENDVPS(angle, cos, sin, y)
	return r, x, y
}

// rowsTogether is the number of rows of 16 pairs that are interleaved.
const rowsTogether = 2

// roundsAVX512 computes 16 pairs at a time. The undecided values of 16 are stored by a branch
// that is rarely taken.
func roundsAVX512(c code, co roundedConstants) {
	even := table(c.Context, "evenWords", 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
	leaf(c.Context, "roundsAVX512", roundsSignature, "roundsAVX512 is roundsGeneric for AVX-512F.")
	sums := operand.Mem{Base: c.Load(c.Param("sums"), c.GP64())}
	words := operand.Mem{Base: c.Load(c.Param("words"), c.GP64())}
	undecided := operand.Mem{Base: c.Load(c.Param("undecided"), c.GP64())}
	broadcast := func(name string) reg.VecVirtual {
		z := c.ZMM()
		c.VBROADCASTSS(parameter(c.Context, name), z)
		return z
	}
	scale, slope, base := broadcast("scale"), broadcast("slope"), broadcast("base")
	bits := c.GP64()
	c.Load(c.Param("bits"), bits)
	shift, left, twice := c.ZMM(), c.ZMM(), c.ZMM() // bits, 32 - bits, 33 - bits
	c.VPBROADCASTQ(bits, shift)
	c.NEGQ(bits)
	c.ADDQ(operand.U32(32), bits)
	c.VPBROADCASTD(bits.As32(), left)
	c.INCQ(bits)
	c.VPBROADCASTD(bits.As32(), twice)
	evenWords := c.load(even)
	n := c.GP64()
	c.MOVQ(operand.U32(16/rowsTogether), n)

	repeat(c.Context, "row", n, func() {
		var pairs, values []func()
		var store []func()
		for row := range rowsTogether {
			words, sums, undecided := words.Offset(4*lanes*row), sums.Offset(16*lanes*row), undecided.Offset(4*row)
			known, radius, twiceError, z := c.K(), c.ZMM(), c.ZMM(), make([]reg.VecVirtual, 2)
			var shifted reg.VecVirtual
			pairs = append(pairs, func() {
				integer, angle := c.load(words), c.load(words.Offset(groupBytes))
				near := c.ZMM()
				c.VPADDD_BCST(co.nearOne, integer, near)
				c.VPCMPUD_BCST(operand.U8(5), co.excluded, near, known) // not less
				shifted, z[0], z[1] = c.fastPairs(co, integer, angle)
				c.VMULPS(scale, shifted, radius)
				c.VFMADD213PS(base, slope, shifted)
				c.VCVTPS2DQ(shifted, twiceError)
				c.VPSLLVD(twice, twiceError, twiceError)
			})
			for second := range z {
				at, name := sums.Offset(128*second), fmt.Sprint("row", row, []string{"x", "y"}[second])
				sum, decided := []reg.VecVirtual{c.ZMM(), c.ZMM()}, c.K()
				values = append(values, func() {
					z := z[second]
					c.VFMADD213PS(shifted, radius, z)
					c.VCVTPS2DQ(z, z)
					half, low := c.YMM(), c.ZMM()
					c.VPMOVSXDQ(z.AsY(), sum[0])
					c.VEXTRACTI64X4(operand.U8(1), z, half)
					c.VPMOVSXDQ(half, sum[1])
					c.VPADDQ(at, sum[0], sum[0])
					c.VPADDQ(at.Offset(64), sum[1], sum[1])
					c.VMOVDQA32(evenWords, low)
					c.VPERMI2D(sum[1], sum[0], low)
					c.VPSLLVD(left, low, low)
					c.VPCMPUD(operand.U8(5), twiceError, low, known, decided)
					c.VPSRAVQ(shift, sum[0], sum[0])
					c.VPSRAVQ(shift, sum[1], sum[1])
				})
				store = append(store, func() {
					c.KORTESTW(decided, decided)
					c.JCS(operand.LabelRef(name + "Decided"))
					mask, upper := c.GP32(), c.K()
					c.KMOVW(decided, mask)
					c.NOTL(mask)
					c.MOVW(mask.As16(), undecided.Offset(2*second))
					c.KSHIFTRW(operand.U8(8), decided, upper)
					c.VMOVDQU64(sum[0], decided, at)
					c.VMOVDQU64(sum[1], upper, at.Offset(64))
					c.JMP(operand.LabelRef(name + "Done"))
					c.Label(name + "Decided")
					c.VMOVDQU64(sum[0], at)
					c.VMOVDQU64(sum[1], at.Offset(64))
					c.Label(name + "Done")
				})
			}
		}
		interleave(c.Context, pairs...)
		interleave(c.Context, values...)
		for _, write := range store {
			write()
		}
		c.ADDQ(operand.U32(4*lanes*rowsTogether), words.Base)
		c.ADDQ(operand.U32(16*lanes*rowsTogether), sums.Base)
		c.ADDQ(operand.U32(4*rowsTogether), undecided.Base)
	})
	c.VZEROUPPER()
	c.RET()
}

// roundsAVX2 computes eight pairs at a time.
func roundsAVX2(c code, co roundedConstants) {
	leaf(c.Context, "roundsAVX2", roundsSignature, "roundsAVX2 is roundsGeneric for AVX2 and FMA.")
	sums := operand.Mem{Base: c.Load(c.Param("sums"), c.GP64())}
	words := operand.Mem{Base: c.Load(c.Param("words"), c.GP64())}
	undecided := operand.Mem{Base: c.Load(c.Param("undecided"), c.GP64())}
	stack, rows := c.AllocLocal(8*32), 0
	row := func(value reg.VecVirtual) operand.Mem {
		at := stack.Offset(32 * rows)
		rows++
		c.VMOVDQU(value, at)
		return at
	}
	broadcast := func(name string) operand.Mem {
		y := c.YMM()
		c.VBROADCASTSS(parameter(c.Context, name), y)
		return row(y)
	}
	scale, slope, base := broadcast("scale"), broadcast("slope"), broadcast("base")
	count := c.Load(c.Param("bits"), c.GP64())
	number, shift := c.XMM(), c.YMM()
	c.VMOVQ(count, number)
	c.VPBROADCASTQ(number, shift)
	bits := row(shift) // in each of four
	c.NEGQ(count)
	c.ADDQ(operand.U32(32), count)
	c.VMOVQ(count, number)
	c.VPBROADCASTD(number, shift)
	left := row(shift)
	c.INCQ(count)
	c.VMOVQ(count, number)
	c.VPBROADCASTD(number, shift)
	twice := row(shift)
	// AVX2 has no arithmetic shift of 64 bits: x >> n = (x + 2^63) >>> n - 2^(63-n).
	bias, moved := c.YMM(), c.YMM()
	c.VPCMPEQD(bias, bias, bias)
	c.VPSLLQ(operand.U8(63), bias, bias)
	c.VPSRLVQ(bits, bias, moved)
	biasRow, movedRow := row(bias), row(moved)
	unknown := c.AllocLocal(32)
	n := c.GP64()
	c.MOVQ(operand.U32(16), n)

	repeat(c.Context, "row", n, func() {
		for lane := 0; lane < lanes; lane += 8 {
			integer, angle := c.load(words.Offset(4*lane)), c.load(words.Offset(groupBytes+4*lane))
			excluded := c.load(co.excluded)
			near := c.YMM()
			c.VPADDD(co.nearOne, integer, near)
			c.VPCMPGTD(near, excluded, excluded)
			c.VMOVDQU(excluded, unknown)
			r, x, y := c.fastPairs(co, integer, angle)
			radius, shifted, twiceError := c.YMM(), c.YMM(), c.YMM()
			c.VMULPS(scale, r, radius)
			c.VMOVUPS(base, shifted)
			c.VFMADD231PS(slope, r, shifted)
			c.VCVTPS2DQ(shifted, twiceError)
			c.VPSLLVD(twice, twiceError, twiceError)
			c.VPOR(unknown, twiceError, twiceError) // no value reaches 2^32-1
			for second, z := range []reg.VecVirtual{x, y} {
				at, name := sums.Offset(128*second+8*lane), []string{"x", "y"}[second]+[]string{"Low", "High"}[lane/8]
				c.VFMADD213PS(shifted, radius, z)
				c.VCVTPS2DQ(z, z)
				half, low := c.XMM(), c.YMM()
				sum := []reg.VecVirtual{c.YMM(), c.YMM()}
				c.VPMOVSXDQ(z.AsX(), sum[0])
				c.VEXTRACTI128(operand.U8(1), z, half)
				c.VPMOVSXDQ(half, sum[1])
				for i, s := range sum {
					c.VPADDQ(at.Offset(32*i), s, s)
				}
				c.VSHUFPS(operand.U8(0x88), sum[1], sum[0], low)
				c.VPERMQ(operand.U8(0xd8), low, low)
				c.VPSLLVD(left, low, low)
				decided, mask := c.YMM(), c.GP32()
				c.VPMAXUD(twiceError, low, decided)
				c.VPCMPEQD(low, decided, decided)
				for _, s := range sum {
					c.VPADDQ(biasRow, s, s)
					c.VPSRLVQ(bits, s, s)
					c.VPSUBQ(movedRow, s, s)
				}
				c.VMOVMSKPS(decided, mask)
				c.CMPL(mask, operand.U32(0xff))
				c.JEQ(operand.LabelRef(name + "Decided"))
				c.NOTL(mask)
				c.MOVB(mask.As8(), undecided.Offset(2*second+lane/8))
				wide := c.YMM()
				c.VPMOVSXDQ(decided.AsX(), wide)
				c.VPMASKMOVQ(sum[0], wide, at)
				c.VEXTRACTI128(operand.U8(1), decided, half)
				c.VPMOVSXDQ(half, wide)
				c.VPMASKMOVQ(sum[1], wide, at.Offset(32))
				c.JMP(operand.LabelRef(name + "Done"))
				c.Label(name + "Decided")
				c.VMOVDQU(sum[0], at)
				c.VMOVDQU(sum[1], at.Offset(32))
				c.Label(name + "Done")
			}
		}
		c.ADDQ(operand.U32(4*lanes), words.Base)
		c.ADDQ(operand.U32(16*lanes), sums.Base)
		c.ADDQ(operand.U32(4), undecided.Base)
	})
	c.VZEROUPPER()
	c.RET()
}
