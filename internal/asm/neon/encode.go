package neon

import "fmt"

// Go's assembler lacks most vector instructions on floats. They are written as words: a base
// with the numbers of the registers in fields of five bits (Arm Architecture Reference Manual
// for A-profile, C7.2). The comment after a word is the instruction in the syntax of the GNU
// assembler.

// word returns the code of an encoded instruction. Its registers are the result and the first
// and second operand.
func (in instruction) word() uint32 {
	w := in.base
	for i, r := range in.regs {
		w |= uint32(r.number) << []int{0, 5, 16}[i]
	}
	return w
}

// encoded adds an encoded instruction.
func (f *function) encoded(base uint32, format string, regs ...*reg) {
	f.code = append(f.code, instruction{format: format, regs: regs, encoded: true, base: base})
}

// bases are the codes of instructions on whole vectors, with all registers 0.
var bases = map[string]uint32{
	"fadd v%d.4s, v%d.4s, v%d.4s":   0x4e20d400,
	"fsub v%d.4s, v%d.4s, v%d.4s":   0x4ea0d400,
	"fmul v%d.4s, v%d.4s, v%d.4s":   0x6e20dc00,
	"fdiv v%d.4s, v%d.4s, v%d.4s":   0x6e20fc00,
	"fmax v%d.4s, v%d.4s, v%d.4s":   0x4e20f400,
	"fmin v%d.4s, v%d.4s, v%d.4s":   0x4ea0f400,
	"fmaxnm v%d.4s, v%d.4s, v%d.4s": 0x4e20c400,
	"bic v%d.16b, v%d.16b, v%d.16b": 0x4e601c00,
	"orn v%d.16b, v%d.16b, v%d.16b": 0x4ee01c00,
	"fcmgt v%d.4s, v%d.4s, v%d.4s":  0x6ea0e400,
	"fcmeq v%d.4s, v%d.4s, v%d.4s":  0x4e20e400,
	"fadd v%d.2d, v%d.2d, v%d.2d":   0x4e60d400,
	"fsub v%d.2d, v%d.2d, v%d.2d":   0x4ee0d400,
	"fmul v%d.2d, v%d.2d, v%d.2d":   0x6e60dc00,
	"ushl v%d.4s, v%d.4s, v%d.4s":   0x6ea04400,
	"sshl v%d.2d, v%d.2d, v%d.2d":   0x4ee04400,
	"cmhs v%d.4s, v%d.4s, v%d.4s":   0x6ea03c00,

	"fsqrt v%d.4s, v%d.4s":       0x6ea1f800,
	"fabs v%d.4s, v%d.4s":        0x4ea0f800,
	"frintn v%d.4s, v%d.4s":      0x4e218800,
	"fcvtns v%d.4s, v%d.4s":      0x4e21a800,
	"scvtf v%d.4s, v%d.4s":       0x4e21d800,
	"fcmlt v%d.4s, v%d.4s, #0.0": 0x4ea0e800,
	"fcmle v%d.4s, v%d.4s, #0.0": 0x6ea0d800,
	"fcmeq v%d.4s, v%d.4s, #0.0": 0x4ea0d800,
	"scvtf v%d.2d, v%d.2d":       0x4e61d800,
	"fcvtl v%d.2d, v%d.2s":       0x0e617800,
	"fcvtl2 v%d.2d, v%d.4s":      0x4e617800,
	"fcvtl v%d.4s, v%d.4h":       0x0e217800,
	"fcvtl2 v%d.4s, v%d.8h":      0x4e217800,
	"shll v%d.4s, v%d.4h, #16":   0x2e613800,
	"shll2 v%d.4s, v%d.8h, #16":  0x6e613800,
	"fcvtn v%d.2s, v%d.2d":       0x0e616800,
	"fcvtn2 v%d.4s, v%d.2d":      0x4e616800,
	"faddp d%d, v%d.2d":          0x7e70d800,
	"fmaxnmv s%d, v%d.4s":        0x6e30c800,

	"mul v%d.4s, v%d.4s, v%d.4s":    0x4ea09c00,
	"umax v%d.4s, v%d.4s, v%d.4s":   0x6ea06400,
	"smull v%d.4s, v%d.4h, v%d.4h":  0x0e60c000,
	"smlal2 v%d.4s, v%d.8h, v%d.8h": 0x4e608000,
	"smlal v%d.2d, v%d.2s, v%d.2s":  0x0ea08000,
	"smlal2 v%d.2d, v%d.4s, v%d.4s": 0x4ea08000,
	"saddw v%d.2d, v%d.2d, v%d.2s":  0x0ea01000,
	"saddw2 v%d.2d, v%d.2d, v%d.4s": 0x4ea01000,
	"scvtf v%d.4s, v%d.4s, #32":     0x4f20e400,
	"sqxtn v%d.4h, v%d.4s":          0x0e614800,
	"sqxtn2 v%d.8h, v%d.4s":         0x4e614800,
	"uadalp v%d.2d, v%d.4s":         0x6ea06800,
	"umaxv s%d, v%d.4s":             0x6eb0a800,
	"addp d%d, v%d.2d":              0x5ef1b800,
	"uminv s%d, v%d.4s":             0x6eb1a800,
	"addv s%d, v%d.4s":              0x4eb1b800,
	"sxtl v%d.4s, v%d.4h":           0x0f10a400,
	"sxtl2 v%d.4s, v%d.8h":          0x4f10a400,
	"sxtl v%d.2d, v%d.2s":           0x0f20a400,
	"sxtl2 v%d.2d, v%d.4s":          0x4f20a400,
}

// vector adds an instruction of bases.
func (f *function) vector(format string, regs ...*reg) {
	base, ok := bases[format]
	if !ok {
		panic("no encoding of " + format)
	}
	f.encoded(base, format, regs...)
}

// laneBases are the codes of instructions that use one lane of the last operand. The number
// of the lane is in bits 21 and 11.
var laneBases = map[string]uint32{"fmul": 0x4f809000, "fmla": 0x4f801000, "fmls": 0x4f805000}

// byLane adds an instruction of laneBases.
func (f *function) byLane(name string, d, n *reg, m lane) {
	f.encoded(laneBases[name]|uint32(m.i&1)<<21|uint32(m.i>>1)<<11,
		fmt.Sprintf("%s v%%d.4s, v%%d.4s, v%%d.s[%d]", name, m.i), d, n, m.of)
}

// halfLaneBases are the codes of multiply-adds of 16-bit integers by one lane of the last operand,
// which is one of the registers 0 to 15. The number of the lane is in bits 20, 21 and 11.
var halfLaneBases = map[string]uint32{"smlal": 0x0f402000, "smlal2": 0x4f402000}

// byHalfLane adds an instruction of halfLaneBases.
func (f *function) byHalfLane(name string, d, n, m *reg, i int) {
	operand := map[string]string{"smlal": "4h", "smlal2": "8h"}[name]
	f.encoded(halfLaneBases[name]|uint32(i&1)<<20|uint32(i>>1&1)<<21|uint32(i>>2)<<11,
		fmt.Sprintf("%s v%%d.4s, v%%d.%s, v%%d.h[%d]", name, operand, i), d, n, m)
}

// shiftRightSigned shifts integers right by 1 to 32 bits, arithmetically.
func shiftRightSigned(f *function, d, n *reg, by int) {
	f.encoded(0x4f000400|uint32(64-by)<<16, fmt.Sprintf("sshr v%%d.4s, v%%d.4s, #%d", by), d, n)
}

// The operations below return a new vector. Operands are in the order of the formula.

// make adds an instruction of bases with a new vector as its result.
func (f *function) make(format string, operands ...*reg) *reg {
	z := f.vec()
	f.vector(format, append([]*reg{z}, operands...)...)
	return z
}

func add(f *function, x, y *reg) *reg { return f.make("fadd v%d.4s, v%d.4s, v%d.4s", x, y) }
func sub(f *function, x, y *reg) *reg { return f.make("fsub v%d.4s, v%d.4s, v%d.4s", x, y) }
func mul(f *function, x, y *reg) *reg { return f.make("fmul v%d.4s, v%d.4s, v%d.4s", x, y) }
func div(f *function, x, y *reg) *reg { return f.make("fdiv v%d.4s, v%d.4s, v%d.4s", x, y) }

// fmax and fmin return NaN where x or y is NaN.
func fmax(f *function, x, y *reg) *reg { return f.make("fmax v%d.4s, v%d.4s, v%d.4s", x, y) }
func fmin(f *function, x, y *reg) *reg { return f.make("fmin v%d.4s, v%d.4s, v%d.4s", x, y) }

func abs(f *function, x *reg) *reg        { return f.make("fabs v%d.4s, v%d.4s", x) }
func toFloat(f *function, x *reg) *reg    { return f.make("scvtf v%d.4s, v%d.4s", x) }
func roundToInt(f *function, x *reg) *reg { return f.make("frintn v%d.4s, v%d.4s", x) }

// mulLane returns x times one lane.
func mulLane(f *function, x *reg, y lane) *reg {
	z := f.vec()
	f.byLane("fmul", z, x, y)
	return z
}

// known adds an operation that Go's assembler supports, with a new vector as its result. Go
// writes the second operand first and the result last.
func (f *function) known(name, arrangement string, x, y *reg) *reg {
	z := f.vec()
	a := "V%d." + arrangement
	f.op(name+" "+a+", "+a+", "+a, y, x, z)
	return z
}

func and(f *function, x, y *reg) *reg     { return f.known("VAND", "B16", x, y) }
func or(f *function, x, y *reg) *reg      { return f.known("VORR", "B16", x, y) }
func xor(f *function, x, y *reg) *reg     { return f.known("VEOR", "B16", x, y) }
func addInts(f *function, x, y *reg) *reg { return f.known("VADD", "S4", x, y) }
func subInts(f *function, x, y *reg) *reg { return f.known("VSUB", "S4", x, y) }
func andNot(f *function, x, y *reg) *reg  { return f.make("bic v%d.16b, v%d.16b, v%d.16b", x, y) }

func shift(f *function, name string, x *reg, by int) *reg {
	z := f.vec()
	f.op(fmt.Sprintf("%s $%d, V%%d.S4, V%%d.S4", name, by), x, z)
	return z
}

func shiftLeft(f *function, x *reg, by int) *reg  { return shift(f, "VSHL", x, by) }
func shiftRight(f *function, x *reg, by int) *reg { return shift(f, "VUSHR", x, by) }

// shiftRightInts shifts integers right by 1 to 32 bits, arithmetically.
func shiftRightInts(f *function, x *reg, by int) *reg {
	z := f.vec()
	shiftRightSigned(f, z, x, by)
	return z
}

// signMask returns lanes of ones where the sign bit of x is set, else of zeros.
func signMask(f *function, x *reg) *reg { return shiftRightInts(f, x, 31) }

// zero returns a new vector of zeros. copyOf returns a copy of x.
func zero(f *function) *reg {
	z := f.vec()
	f.op("VEOR V%d.B16, V%d.B16, V%d.B16", z, z, z)
	return z
}

func copyOf(f *function, x *reg) *reg {
	z := f.vec()
	f.op("VMOV V%d.B16, V%d.B16", x, z)
	return z
}

// broadcast returns a vector of equal lanes.
func broadcast(f *function, l lane) *reg {
	z := f.vec()
	f.op(fmt.Sprintf("VDUP V%%d.S[%d], V%%d.S4", l.i), l.of, z)
	return z
}

// fma adds x·y to sum, rounded once.
func fma(f *function, sum, x, y *reg) { f.op("VFMLA V%d.S4, V%d.S4, V%d.S4", y, x, sum) }

// selectBits returns x where mask is set and y elsewhere. It destroys mask.
func selectBits(f *function, mask, x, y *reg) *reg {
	f.op("VBSL V%d.B16, V%d.B16, V%d.B16", y, x, mask)
	return mask
}

// copySign replaces the sign of x by that of y.
func copySign(f *function, x, y *reg) *reg {
	f.op("VBIT V%d.B16, V%d.B16, V%d.B16", f.bits(1<<31), y, x)
	return x
}

// polynomial returns c[0] + c[1]x + …, with fused multiply-adds.
func polynomial(f *function, x *reg, c ...float64) *reg {
	p := f.loadNum(c[len(c)-1])
	for i := len(c) - 2; i >= 0; i-- {
		next := f.loadNum(c[i])
		fma(f, next, p, x)
		p = next
	}
	return p
}
