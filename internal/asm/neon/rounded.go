package neon

import "fmt"

// rounded emits the NEON form of package noise's roundsGeneric, where the steps and the
// constants are explained.
func rounded() []*function {
	f := newFunction("roundsNEON", "func(sums *[512]int64, words *[512]uint32, undecided *[8]uint64, scale, slope, base float32, bits uint64)")
	sums, words, undecided := f.load("sums"), f.load("words"), f.load("undecided")
	k := roundedConstants{
		scale: broadcast(f, f.scalar("scale")), slope: broadcast(f, f.scalar("slope")), base: broadcast(f, f.scalar("base")),
		right: f.vec(), left: f.vec(), twice: f.vec(),
		laneBits: f.wordVector([4]uint32{1, 2, 4, 8}).reg,
	}
	bits, count := f.load("bits"), f.gp()
	f.op("NEG R%d, R%d", bits, count)
	f.op("VDUP R%d, V%d.D2", count, k.right) // a negative count shifts to the right
	f.op("ADD $32, R%d, R%d", count, count)
	f.op("VDUP R%d, V%d.S4", count, k.left)
	f.op("ADD $1, R%d, R%d", count, count)
	f.op("VDUP R%d, V%d.S4", count, k.twice)

	rows, halves := f.gp(), f.gp()
	f.op("MOVD $16, R%d", rows)
	repeat(f, rows, func() {
		f.op("MOVD $2, R%d", halves)
		repeat(f, halves, func() { // eight pairs
			integer, angle := loadVectors(f, words, 0, 2), loadVectors(f, words, groupBytes, 2)
			var pairs [2]fastPair
			compute := func(i int) func() {
				return func() { pairs[i] = newFastPair(f, k, integer[i], angle[i]) }
			}
			f.interleave(compute(0), compute(1))
			roundEight(f, k, sums, 0, undecided, 0, pairs, func(p fastPair) *reg { return p.x })
			roundEight(f, k, sums, 8*blockLanes, undecided, 2, pairs, func(p fastPair) *reg { return p.y })
			increment(f, words, 32)
			increment(f, sums, 64)
			increment(f, undecided, 1)
		})
		increment(f, sums, 8*blockLanes)
		increment(f, undecided, 2)
	})
	f.ret()
	return []*function{f}
}

// roundedConstants are vectors of equal values, except laneBits.
type roundedConstants struct{ scale, slope, base, right, left, twice, laneBits *reg }

// fastPair has what the two values of four pairs need.
type fastPair struct{ x, y, radius, shifted, twiceError, known *reg }

func newFastPair(f *function, k roundedConstants, integer, angle *reg) (p fastPair) {
	const nearOne, excluded = 1 << 16, 1<<19 + 1<<16
	p.known = f.make("cmhs v%d.4s, v%d.4s, v%d.4s", addInts(f, integer, f.loadBits(nearOne)), f.loadBits(excluded))
	t, c := toFloat(f, integer), and(f, signMask(f, integer), f.loadNum(0x1p32))
	b, e := subInts(f, add(f, t, c), f.loadBits(0x3f3504f3+32<<23)), f.vec()
	shiftRightSigned(f, e, b, 23)
	unit := subInts(f, f.loadNum(0x1p-32), and(f, b, f.loadBits(0xff800000)))
	fraction := f.loadNum(-1)
	fma(f, fraction, c, unit)
	fma(f, fraction, t, unit)
	log := polynomial(f, fraction, -2, 1, -0x1.5556d8p-1, 0x1.000382p-1, -0x1.98d7f4p-2, 0x1.538248p-2,
		-0x1.317452p-2, 0x1.2432bep-2, -0x1.645edcp-3)
	square := mulLane(f, toFloat(f, e), f.numLane(-0x1.62e430p+0))
	fma(f, square, fraction, log)
	r := f.make("fsqrt v%d.4s, v%d.4s", square)
	p.radius, p.shifted = mul(f, r, k.scale), copyOf(f, k.base)
	fma(f, p.shifted, r, k.slope)
	p.twiceError = f.make("ushl v%d.4s, v%d.4s, v%d.4s", f.make("fcvtns v%d.4s, v%d.4s", p.shifted), k.twice)

	w := mulLane(f, toFloat(f, shiftLeft(f, angle, 2)), f.numLane(0x1p-31))
	z := mul(f, w, w)
	sin := mul(f, w, polynomial(f, z, 0x1.921fb4p-1, -0x1.4abba8p-4, 0x1.465a72p-9, -0x1.2cfcc8p-15))
	cos := polynomial(f, z, 1, -0x1.3bd3aep-2, 0x1.03b3bep-6, -0x1.4f107ap-12)
	cos = xor(f, cos, and(f, angle, f.loadBits(1<<31)))
	swap := signMask(f, shiftLeft(f, angle, 1))
	p.x = selectBits(f, copyOf(f, swap), sin, cos)
	p.y = selectBits(f, swap, cos, sin)
	return p
}

// roundEight rounds the first or the second values of eight pairs.
func roundEight(f *function, k roundedConstants, sums *reg, at int, undecided *reg, byteAt int,
	pairs [2]fastPair, value func(fastPair) *reg) {
	old := loadVectors(f, sums, at, 4)
	var decided [2]*reg
	shifted := make([]*reg, 4)
	one := func(i int) func() {
		return func() {
			p := pairs[i]
			v := copyOf(f, p.shifted)
			fma(f, v, value(p), p.radius)
			v = f.make("fcvtns v%d.4s, v%d.4s", v)
			low := f.known("VADD", "D2", old[2*i], f.make("sxtl v%d.2d, v%d.2s", v))
			high := f.known("VADD", "D2", old[2*i+1], f.make("sxtl2 v%d.2d, v%d.4s", v))
			fraction := f.make("ushl v%d.4s, v%d.4s, v%d.4s", f.known("VUZP1", "S4", low, high), k.left)
			decided[i] = and(f, f.make("cmhs v%d.4s, v%d.4s, v%d.4s", fraction, p.twiceError), p.known)
			shifted[2*i] = f.make("sshl v%d.2d, v%d.2d, v%d.2d", low, k.right)
			shifted[2*i+1] = f.make("sshl v%d.2d, v%d.2d, v%d.2d", high, k.right)
		}
	}
	f.interleave(one(0), one(1))
	all, store, done := f.gp(), f.label("decided"), f.label("done")
	f.op("FMOVS F%d, R%d", f.make("uminv s%d, v%d.4s", and(f, decided[0], decided[1])), all)
	f.branch("TBNZ $0, R%d,", store, all)

	// The undecided ones keep their sums.
	set := or(f, and(f, decided[0], k.laneBits), shiftLeft(f, and(f, decided[1], k.laneBits), 4))
	f.op("FMOVS F%d, R%d", f.make("addv s%d, v%d.4s", set), all)
	f.op("MVN R%d, R%d", all, all)
	f.op(fmt.Sprintf("MOVB R%%d, %d(R%%d)", byteAt), all, undecided)
	kept := make([]*reg, 4)
	for i, d := range decided {
		kept[2*i] = selectBits(f, f.make("sxtl v%d.2d, v%d.2s", d), shifted[2*i], old[2*i])
		kept[2*i+1] = selectBits(f, f.make("sxtl2 v%d.2d, v%d.4s", d), shifted[2*i+1], old[2*i+1])
	}
	storeVectors(f, kept, sums, at)
	f.branch("B", done)
	f.at(store)
	storeVectors(f, shifted, sums, at)
	f.at(done)
}
