package neon

import (
	"math"
)

// latticeQuantize lists the kernels of package lattice that round floats.
func latticeQuantize() []*function {
	return []*function{quantizeInt16(), roundToInts()}
}

// dithering emits x·scale + w/2^32 of whole blocks of 32 elements, see package lattice.
type dithering struct {
	f       *function
	x       *reg
	words   [4]*reg // of the next four vectors
	advance *reg    // 16·step
	scale   lane
}

// newDithering loads the arguments x, scale, start and step.
func newDithering(f *function) *dithering {
	d := &dithering{f: f, x: f.load("x"), scale: f.scalar("scale"), advance: f.vec()}
	start, step := f.load("start"), f.load("step")
	places := f.make("mul v%d.4s, v%d.4s, v%d.4s", duplicate(f, step), f.wordVector([4]uint32{0, 1, 2, 3}).reg)
	quarter := f.gp()
	f.op("LSL $2, R%d, R%d", step, quarter)
	next := duplicate(f, quarter)
	d.words[0] = addInts(f, duplicate(f, start), places)
	for i := 1; i < len(d.words); i++ {
		d.words[i] = addInts(f, d.words[i-1], next)
	}
	f.op("LSL $4, R%d, R%d", step, quarter)
	f.op("VDUP R%d, V%d.S4", quarter, d.advance)
	return d
}

// duplicate returns a vector of equal words.
func duplicate(f *function, word *reg) *reg {
	v := f.vec()
	f.op("VDUP R%d, V%d.S4", word, v)
	return v
}

// forEachBlock emits a loop over the blocks that runs body for the vectors of each half of a
// block, with x·scale + w/2^32.
func (d *dithering) forEachBlock(blocks *reg, body func(t [4]*reg)) {
	f := d.f
	repeat(f, blocks, func() {
		for half := range 2 {
			x := loadVectors(f, d.x, 64*half, 4)
			var t [4]*reg
			for i, w := range d.words {
				u := f.make("scvtf v%d.4s, v%d.4s, #32", w)
				f.op("VADD V%d.S4, V%d.S4, V%d.S4", d.advance, w, w)
				t[i] = add(f, mulLane(f, x[i], d.scale), u)
			}
			body(t)
		}
		increment(f, d.x, 128)
	})
}

// quantizeInt16 emits quantize. Conversions saturate infinities and give 0 for NaN, so a mask keeps
// track of NaN.
func quantizeInt16() *function {
	f := newFunction("quantizeNEON", "func(dst *int16, x *float32, blocks int, scale float32, start, step uint32) uint64")
	dst, blocks := f.load("dst"), f.load("blocks")
	d := newDithering(f)
	sums, numbers := zero(f), f.bits(math.MaxUint32)
	valid := copyOf(f, numbers)
	d.forEachBlock(blocks, func(t [4]*reg) {
		for i := 0; i < 4; i += 2 {
			p := f.vec()
			for j, sqxtn := range []string{"sqxtn v%d.4h, v%d.4s", "sqxtn2 v%d.8h, v%d.4s"} {
				f.op("VAND V%d.B16, V%d.B16, V%d.B16", f.make("fcmeq v%d.4s, v%d.4s, v%d.4s", t[i+j], t[i+j]), valid, valid)
				f.vector(sqxtn, p, f.make("fcvtns v%d.4s, v%d.4s", t[i+j]))
			}
			addSquares(f, sums, p)
			f.op("FMOVQ.P F%d, 16(R%d)", p, dst)
		}
	})
	sum, low, high, done := f.gp(), f.gp(), f.gp(), f.label("done")
	total := f.make("addp d%d, v%d.2d", sums)
	f.op("FMOVD F%d, R%d", total, sum)
	f.op("VMOV V%d.D[0], R%d", valid, low)
	f.op("VMOV V%d.D[1], R%d", valid, high)
	f.op("AND R%d, R%d, R%d", low, high, low)
	f.op("MVN R%d, R%d", low, low)
	f.branch("CBZ R%d,", done, low)
	f.op("MOVD $(1<<62), R%d", sum)
	f.at(done)
	f.op("MOVD R%d, ret+40(FP)", sum)
	f.ret()
	return f
}

// addSquares adds the squares of 8 integers of 16 bits to two sums of 64 bits. A sum of two
// squares is at most 2^31, a number without sign.
func addSquares(f *function, sums, x *reg) {
	pairs := f.make("smull v%d.4s, v%d.4h, v%d.4h", x, x)
	f.vector("smlal2 v%d.4s, v%d.8h, v%d.8h", pairs, x, x)
	f.vector("uadalp v%d.2d, v%d.4s", sums, pairs)
}

// roundToInts emits round. The results are stored in two words of 64 bits.
func roundToInts() *function {
	f := newFunction("roundNEON", "func(dst *int32, x *float32, blocks int, scale float32, start, step uint32, results *[2]uint64)")
	dst, blocks, results := f.load("dst"), f.load("blocks"), f.load("results")
	d := newDithering(f)
	sums, largest := [2]*reg{zero(f), zero(f)}, zero(f)
	d.forEachBlock(blocks, func(t [4]*reg) {
		for i := range t {
			f.vector("umax v%d.4s, v%d.4s, v%d.4s", largest, largest, abs(f, t[i]))
			t[i] = f.make("fcvtns v%d.4s, v%d.4s", t[i])
			f.vector("smlal v%d.2d, v%d.2s, v%d.2s", sums[0], t[i], t[i])
			f.vector("smlal2 v%d.2d, v%d.4s, v%d.4s", sums[1], t[i], t[i])
		}
		storeVectors(f, t[:], dst, 0)
		increment(f, dst, 64)
	})
	f.op("VADD V%d.D2, V%d.D2, V%d.D2", sums[0], sums[1], sums[0])
	f.op("FMOVD F%d, (R%d)", f.make("addp d%d, v%d.2d", sums[0]), results)
	word := f.gp()
	f.op("FMOVS F%d, R%d", f.make("umaxv s%d, v%d.4s", largest), word)
	f.op("MOVD R%d, 8(R%d)", word, results)
	f.ret()
	return f
}
