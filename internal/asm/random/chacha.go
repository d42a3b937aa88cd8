package random

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	doubleRounds = 10
	counterWord  = 12
	lanes        = 16
	groupBytes   = 16 * lanes * 4
)

// Words of the state that the four quarter rounds of a column round and of a diagonal round
// combine.
var (
	columns   = [4][4]int{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}
	diagonals = [4][4]int{{0, 5, 10, 15}, {1, 6, 11, 12}, {2, 7, 8, 13}, {3, 4, 9, 14}}
)

func chacha(c *build.Context) {
	const signature = "func(dst *uint32, in *[16]uint32, groups int)"
	var numbers []uint32
	for i := range uint32(2 * lanes) {
		numbers = append(numbers, i)
	}
	iota32 := table(c, "laneNumbers", numbers...)
	chachaAVX512(c, signature, iota32)
	chachaAVX2(c, signature, iota32)
}

// table is read-only data of 32-bit words.
func table(c *build.Context, name string, words ...uint32) operand.Mem {
	m := c.StaticGlobal(name)
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	for i, w := range words {
		c.AddDatum(4*i, operand.U32(w))
	}
	return m
}

// quarters emits interleaved quarter rounds of the given words of several states. rotate
// receives the number of the quarter round.
func quarters(c *build.Context, words [][4]int, states [][16]reg.VecPhysical,
	xor func(from, to reg.VecPhysical), rotate func(i int, x reg.VecPhysical, by uint8)) {
	var rounds [][4]reg.VecPhysical
	for _, x := range states {
		for _, w := range words {
			rounds = append(rounds, [4]reg.VecPhysical{x[w[0]], x[w[1]], x[w[2]], x[w[3]]})
		}
	}
	half := func(sum, add, mix int, by uint8) {
		for _, r := range rounds {
			c.VPADDD(r[add], r[sum], r[sum])
		}
		for _, r := range rounds {
			xor(r[sum], r[mix])
		}
		for i, r := range rounds {
			rotate(i, r[mix], by)
		}
	}
	half(0, 1, 3, 16)
	half(2, 3, 1, 12)
	half(0, 1, 3, 8)
	half(2, 3, 1, 7)
}

// Each of 16 registers contains one word of the state, each of its lanes one block. Two groups
// at a time use all 32 registers, because the steps of one group depend on each other.
func chachaAVX512(c *build.Context, signature string, laneNumbers operand.Mem) {
	leaf(c, "groupsAVX512", signature, "groupsAVX512 is groupsGeneric for AVX-512F.")
	dst := operand.Mem{Base: c.Load(c.Param("dst"), c.GP64())}
	in := operand.Mem{Base: c.Load(c.Param("in"), c.GP64())}
	groups := c.Load(c.Param("groups"), c.GP64())
	rounds, step := c.GP64(), c.GP32()
	counter := c.AllocLocal(8)
	c.MOVL(in.Offset(4*counterWord), step)
	c.MOVL(step, counter)

	several := func(n int, name string) {
		var x [2][16]reg.VecPhysical
		for i, z := range zmm {
			x[i/16][i%16] = z
		}
		for i, x := range x[:n] {
			for j := range x {
				if j != counterWord {
					c.VPBROADCASTD(in.Offset(4*j), x[j])
				}
			}
			c.VPBROADCASTD(counter, x[counterWord])
			c.VPADDD(laneNumbers.Offset(4*lanes*i), x[counterWord], x[counterWord])
		}
		c.MOVQ(operand.U32(doubleRounds), rounds)
		repeat(c, name, rounds, func() {
			for _, round := range [][4][4]int{columns, diagonals} {
				quarters(c, round[:], x[:n],
					func(from, to reg.VecPhysical) { c.VPXORD(from, to, to) },
					func(_ int, x reg.VecPhysical, by uint8) { c.VPROLD(operand.U8(by), x, x) })
			}
		})
		for i, x := range x[:n] {
			for j := range x {
				if j == counterWord {
					c.VPADDD_BCST(counter, x[j], x[j])
					c.VPADDD(laneNumbers.Offset(4*lanes*i), x[j], x[j])
				} else {
					c.VPADDD_BCST(in.Offset(4*j), x[j], x[j])
				}
				c.VMOVDQU32(x[j], dst.Offset(groupBytes*i+64*j))
			}
		}
		c.ADDL(operand.U32(lanes*n), counter)
		c.ADDQ(operand.U32(groupBytes*n), dst.Base)
	}

	c.Label("pair")
	c.SUBQ(operand.U32(2), groups)
	c.JL(operand.LabelRef("single"))
	several(2, "roundsOfTwo")
	c.JMP(operand.LabelRef("pair"))
	c.Label("single")
	c.ADDQ(operand.U32(2), groups)
	c.JZ(operand.LabelRef("done"))
	several(1, "rounds")
	c.Label("done")
	c.VZEROUPPER()
	c.RET()
}

var zmm = [32]reg.VecPhysical{
	reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7,
	reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
	reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23,
	reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
}

// As above with eight lanes and two passes for each group. Sixteen registers are too few for
// the state and the temporaries of rotations. The quarter rounds therefore run in pairs, and
// two words of the third row, which the next pair needs, are on the stack.
func chachaAVX2(c *build.Context, signature string, laneNumbers operand.Mem) {
	rotate16 := byteShuffle(c, "rotate16", 2, 3, 0, 1)
	rotate8 := byteShuffle(c, "rotate8", 3, 0, 1, 2)
	eight := table(c, "eights", 8, 8, 8, 8, 8, 8, 8, 8)

	leaf(c, "groupsAVX2", signature, "groupsAVX2 is groupsGeneric for AVX2.")
	dst := operand.Mem{Base: c.Load(c.Param("dst"), c.GP64())}
	in := operand.Mem{Base: c.Load(c.Param("in"), c.GP64())}
	groups := c.Load(c.Param("groups"), c.GP64())
	passes := c.GP64()
	rounds := c.GP64()

	y := []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7,
		reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15}
	var x [16]reg.VecPhysical
	copy(x[:8], y[:8])
	copy(x[12:], y[8:12])
	x[8], x[9], x[10], x[11] = y[12], y[13], y[12], y[13] // alternately
	spare := [2]reg.VecPhysical{y[14], y[15]}

	waiting := c.AllocLocal(4 * 32)
	slot := func(word int) operand.Mem { return waiting.Offset(32 * (word - 8)) }
	counter := c.AllocLocal(32)

	c.VPBROADCASTD(in.Offset(4*counterWord), spare[0])
	c.VPADDD(laneNumbers, spare[0], spare[0])
	c.VMOVDQU(spare[0], counter)

	rotate := func(i int, x reg.VecPhysical, by uint8) {
		switch by {
		case 16:
			c.VPSHUFB(rotate16, x, x)
		case 8:
			c.VPSHUFB(rotate8, x, x)
		default:
			c.VPSLLD(operand.U8(by), x, spare[i])
			c.VPSRLD(operand.U8(32-by), x, x)
			c.VPOR(spare[i], x, x)
		}
	}
	pair := func(words [][4]int) {
		quarters(c, words, [][16]reg.VecPhysical{x}, func(from, to reg.VecPhysical) { c.VPXOR(from, to, to) }, rotate)
	}
	exchange := func(out, back [2]int) {
		for i := range out {
			c.VMOVDQU(x[out[i]], slot(out[i]))
			c.VMOVDQU(slot(back[i]), x[back[i]])
		}
	}
	pass := func() {
		for j := range x {
			switch j {
			case 10, 11:
				c.VPBROADCASTD(in.Offset(4*j), spare[0])
				c.VMOVDQU(spare[0], slot(j))
			case counterWord:
				c.VMOVDQU(counter, x[j])
			default:
				c.VPBROADCASTD(in.Offset(4*j), x[j])
			}
		}
		c.MOVQ(operand.U32(doubleRounds), rounds)
		repeat(c, "rounds", rounds, func() {
			pair(columns[:2])
			exchange([2]int{8, 9}, [2]int{10, 11})
			pair(columns[2:])
			pair(diagonals[:2])
			exchange([2]int{10, 11}, [2]int{8, 9})
			pair(diagonals[2:])
		})
		for j := range x {
			at := x[j]
			switch j {
			case 10, 11: // words 8 and 9 are already stored
				c.VMOVDQU(slot(j), at)
			}
			if j == counterWord {
				c.VPADDD(counter, at, at)
			} else {
				c.VPBROADCASTD(in.Offset(4*j), spare[0])
				c.VPADDD(spare[0], at, at)
			}
			c.VMOVDQU(at, dst.Offset(64*j))
		}
		c.VMOVDQU(counter, spare[0])
		c.VPADDD(eight, spare[0], spare[0])
		c.VMOVDQU(spare[0], counter)
		c.ADDQ(operand.U32(32), dst.Base)
	}
	repeat(c, "group", groups, func() {
		c.MOVQ(operand.U32(2), passes)
		repeat(c, "pass", passes, pass)
		c.ADDQ(operand.U32(groupBytes-64), dst.Base)
	})
	c.VZEROUPPER()
	c.RET()
}

// byteShuffle is the VPSHUFB control that permutes the bytes of every word.
func byteShuffle(c *build.Context, name string, from ...uint32) operand.Mem {
	var words []uint32
	for w := range uint32(8) {
		v := uint32(0)
		for i, f := range from {
			v |= (w%4*4 + f) << (8 * i)
		}
		words = append(words, v)
	}
	return table(c, name, words...)
}
