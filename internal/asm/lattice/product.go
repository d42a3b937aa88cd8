package lattice

import (
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// flagAdd is a flag of a tile, as in package lattice: start from the sums in part.
const flagAdd = 1

// macFunc adds the products of the pairs of int16 in b and x to acc.
type macFunc func(g *generator, b, x, acc vec)

// multiplyAdd uses an instruction for the products of pairs and one for the sum.
func multiplyAdd(g *generator, b, x, acc vec) {
	product := g.vector()
	g.VPMADDWD(b, x, product)
	g.VPADDD(product, acc, acc)
}

// dotProduct uses one instruction of AVX-512 VNNI.
func dotProduct(g *generator, b, x, acc vec) { g.vnni("VPDPWSSD", b, x, acc) }

// vnni adds an instruction of AVX-512 VNNI, which avo does not know.
func (g *generator) vnni(opcode string, b, x, acc vec) {
	g.Instruction(&ir.Instruction{
		Opcode: opcode, Operands: []Op{b, x, acc}, Inputs: []Op{b, x, acc}, Outputs: []Op{acc}, ISA: []string{"AVX512_VNNI"},
	})
}

func productFile(g *generator) {
	for _, set := range []struct {
		suffix    string
		lanes, mr int
		mac       macFunc
	}{{"AVX2", 8, 6, multiplyAdd}, {"AVX512", 16, 12, multiplyAdd}, {"VNNI", 16, 12, dotProduct}} {
		g.suffix, g.lanes = set.suffix, set.lanes
		emitTile(g, set.mr, set.mac)
		emitDirect(g, set.mr, set.mac)
	}
	g.forEachSet(func() { emitInterleave(g) })
	g.suffix = "AVX2"
	emitColumns(g)
}

// rowPointers returns the address of element 0 of row i of matrices whose rows are ld bytes apart;
// one pointer serves three rows.
func (g *generator) rowPointers(base, ld reg.Register, m int) func(i int) Mem {
	pointers := []reg.Register{base}
	for i := 3; i < m; i += 3 {
		p := g.GP64()
		g.LEAQ(Mem{Base: pointers[len(pointers)-1], Index: ld, Scale: 2}, p)
		g.ADDQ(ld, p)
		pointers = append(pointers, p)
	}
	return func(i int) Mem {
		m := Mem{Base: pointers[i/3]}
		if i%3 > 0 {
			m.Index, m.Scale = ld, uint8(i%3)
		}
		return m
	}
}

// tileArgs are the arguments of a tile that its bodies share.
type tileArgs struct{ a, lda, b, ldb, steps, part, ldp reg.Register }

// forEachHeight emits body for each number of rows from mr to 1.
func (g *generator) forEachHeight(mr int, body func(m int)) {
	rows := g.param("m")
	for m := mr; m >= 1; m-- {
		next := g.label("next")
		if m > 1 {
			g.CMPQ(rows, U8(m))
			g.JNE(LabelRef(next))
		}
		body(m)
		if m > 1 {
			g.Label(next)
		}
	}
}

// emitTile emits tile for one or two vectors of columns.
func emitTile(g *generator, mr int, mac macFunc) {
	g.function("tile", "func(m, n, steps int, a *int16, lda int, b *int16, ldb int, part *int32, ldp int, flags int)", "kernels.tile")
	t := tileArgs{g.param("a"), g.param("lda"), g.param("b"), g.param("ldb"), g.param("steps"), g.param("part"), g.param("ldp")}
	for _, ld := range []reg.Register{t.lda, t.ldb, t.ldp} {
		g.SHLQ(U8(2), ld)
	}
	narrow, n := g.label("narrow"), g.param("n")
	g.CMPQ(n, U8(g.lanes))
	g.JLE(LabelRef(narrow))
	g.forEachHeight(mr, func(m int) { emitTileBody(g, t, m, 2, mac) })
	g.Label(narrow)
	g.forEachHeight(mr, func(m int) { emitTileBody(g, t, m, 1, mac) })
}

// accumulators returns zero vectors for m rows.
func (g *generator) accumulators(m, vectors int) [][]vec {
	acc := make([][]vec, m)
	for i := range acc {
		for range vectors {
			acc[i] = append(acc[i], g.zero())
		}
	}
	return acc
}

// multiplyStep adds the products of one step: the pairs of m rows of A and vectors of B.
func (g *generator) multiplyStep(t tileArgs, acc [][]vec, b []vec, mac macFunc) {
	for i := range acc {
		x := g.vector()
		g.VPBROADCASTD(Mem{Base: t.a, Disp: 4 * i}, x)
		for v := range b {
			mac(g, b[v], x, acc[i][v])
		}
	}
	g.ADDQ(t.lda, t.a)
}

func emitTileBody(g *generator, t tileArgs, m, vectors int, mac macFunc) {
	acc := g.accumulators(m, vectors)
	flags := g.param("flags")
	// Prefetch the elements to which the result is added, whose rows may be far apart.
	row := g.GP64()
	g.MOVQ(t.part, row)
	for i := range m {
		for v := range vectors {
			g.PREFETCHT0(Mem{Base: row, Disp: 4 * g.lanes * v})
		}
		if i < m-1 {
			g.ADDQ(t.ldp, row)
		}
	}
	step := func() {
		b := make([]vec, vectors)
		for v := range b {
			b[v] = g.vector()
			g.load(Mem{Base: t.b, Disp: 4 * g.lanes * v}, b[v])
		}
		g.ADDQ(t.ldb, t.b)
		g.multiplyStep(t, acc, b, mac)
	}
	g.forChunks(t.steps, 2, func() { step(); step() })
	g.forChunks(t.steps, 1, step)
	addPart(g, t, acc, flags)
	storePart(g, t, acc)
}

// addPart adds the sums in part if flagAdd is set.
func addPart(g *generator, t tileArgs, acc [][]vec, flags reg.Register) {
	skip := g.label("skip")
	g.TESTQ(U32(flagAdd), flags)
	g.JEQ(LabelRef(skip))
	row := g.GP64()
	g.MOVQ(t.part, row)
	for i := range acc {
		for v, x := range acc[i] {
			g.VPADDD(Mem{Base: row, Disp: 4 * g.lanes * v}, x, x)
		}
		if i < len(acc)-1 {
			g.ADDQ(t.ldp, row)
		}
	}
	g.Label(skip)
}

// storePart stores the sums in part and ends the function.
func storePart(g *generator, t tileArgs, acc [][]vec) {
	for i := range acc {
		for v, x := range acc[i] {
			g.store(x, Mem{Base: t.part, Disp: 4 * g.lanes * v})
		}
		if i < len(acc)-1 {
			g.ADDQ(t.ldp, t.part)
		}
	}
	g.leave()
}

// emitDirect emits direct: a tile two vectors wide that reads rows of B as they are and
// interleaves two of them in registers. VPUNPCK interleaves within the 128-bit parts of vectors.
// The sums are put in order before they are stored.
func emitDirect(g *generator, mr int, mac macFunc) {
	g.function("direct", "func(m, rows int, a *int16, lda int, b *int16, ldb int, part *int32, ldp int, flags int)", "kernels.direct")
	t := tileArgs{g.param("a"), g.param("lda"), g.param("b"), g.param("ldb"), g.param("rows"), g.param("part"), g.param("ldp")}
	g.SHLQ(U8(2), t.lda)
	g.SHLQ(U8(1), t.ldb)
	g.SHLQ(U8(2), t.ldp)
	flags := g.param("flags")
	g.forEachHeight(mr, func(m int) {
		acc := g.accumulators(m, 2)
		step := func(second Op) {
			low, high := g.vector(), g.vector()
			g.load(Mem{Base: t.b}, high)
			g.VPUNPCKLWD(second, high, low)
			g.VPUNPCKHWD(second, high, high)
			g.multiplyStep(t, acc, []vec{low, high}, mac)
		}
		g.forChunks(t.steps, 2, func() {
			step(Mem{Base: t.b, Index: t.ldb, Scale: 1})
			g.LEAQ(Mem{Base: t.b, Index: t.ldb, Scale: 2}, t.b)
		})
		even := g.label("even")
		g.TESTQ(t.steps, t.steps)
		g.JEQ(LabelRef(even))
		step(g.zero())
		g.Label(even)
		for i := range acc {
			low, high := acc[i][0], acc[i][1]
			if g.lanes == 16 {
				// Quadwords 0 to 7 are those of low, 8 to 15 those of high.
				first, second := g.vector(), g.vector()
				g.load(g.words("lowOrder", 16, func(i int) uint32 { return uint32([]int{0, 1, 8, 9, 2, 3, 10, 11}[i/2] * (1 - i%2)) }), first)
				g.load(g.words("highOrder", 16, func(i int) uint32 { return uint32([]int{4, 5, 12, 13, 6, 7, 14, 15}[i/2] * (1 - i%2)) }), second)
				g.VPERMI2Q(high, low, first)
				g.VPERMI2Q(high, low, second)
				acc[i] = []vec{first, second}
			} else {
				first := g.vector()
				g.VPERM2I128(U8(0x20), high, low, first)
				g.VPERM2I128(U8(0x31), high, low, high)
				acc[i] = []vec{first, high}
			}
		}
		addPart(g, t, acc, flags)
		storePart(g, t, acc)
	})
}

// emitInterleave emits interleave.
func emitInterleave(g *generator) {
	g.function("interleave", "func(dst *int16, ld int, x *int16, ldx, rows, n int)", "kernels.interleave")
	dst, ld, x, ldx, rows, n := g.param("dst"), g.param("ld"), g.param("x"), g.param("ldx"), g.param("rows"), g.param("n")
	g.SHLQ(U8(2), ld)
	g.SHLQ(U8(1), ldx)
	var mask reg.Register // of the last columns
	if g.lanes == 16 {
		bits, all := g.GP64(), g.GP64()
		g.MOVQ(n, bits)
		g.ANDQ(U8(15), bits)
		g.MOVQ(I32(-1), all)
		g.BZHIQ(bits, all, bits)
		mask = g.K()
		g.KMOVW(bits.As32(), mask)
	}
	row := func(paired bool) {
		a, b, to, left := g.GP64(), g.GP64(), g.GP64(), g.GP64()
		g.MOVQ(x, a)
		if paired {
			g.LEAQ(Mem{Base: x, Index: ldx, Scale: 1}, b)
		}
		g.MOVQ(dst, to)
		g.MOVQ(n, left)
		columns := func(count int, low, high vec, load func(from reg.Register, x vec), store func(x vec)) {
			load(a, low)
			if paired {
				load(b, high)
				g.VPSLLD(U8(16), high, high)
				if g.lanes == 16 {
					g.VPORD(high, low, low)
				} else {
					g.VPOR(high, low, low)
				}
				g.ADDQ(U8(2*count), b)
			}
			store(low)
			g.ADDQ(U8(2*count), a)
			g.ADDQ(U8(4*count), to)
		}
		g.forChunks(left, g.lanes, func() {
			columns(g.lanes, g.vector(), g.vector(), func(from reg.Register, x vec) { g.VPMOVZXWD(Mem{Base: from}, x) },
				func(x vec) { g.store(x, Mem{Base: to}) })
		})
		done := g.label("done")
		if g.lanes == 16 {
			g.TESTQ(left, left)
			g.JEQ(LabelRef(done))
			columns(g.lanes, g.vector(), g.vector(), func(from reg.Register, x vec) { g.VPMOVZXWD_Z(Mem{Base: from}, mask, x) },
				func(x vec) { g.VMOVDQU32(x, mask, Mem{Base: to}) })
			g.Label(done)
			return
		}
		g.forChunks(left, 4, func() {
			columns(4, g.XMM(), g.XMM(), func(from reg.Register, x vec) { g.VPMOVZXWD(Mem{Base: from}, x) },
				func(x vec) { g.VMOVDQU(x, Mem{Base: to}) })
		})
		g.TESTQ(left, left)
		g.JEQ(LabelRef(done))
		g.repeat(left, func() {
			u, v := g.GP32(), g.GP32()
			g.MOVWLZX(Mem{Base: a}, u)
			g.ADDQ(U8(2), a)
			if paired {
				g.MOVWLZX(Mem{Base: b}, v)
				g.ADDQ(U8(2), b)
				g.SHLL(U8(16), v)
				g.ORL(v, u)
			}
			g.MOVL(u, Mem{Base: to})
			g.ADDQ(U8(4), to)
		})
		g.Label(done)
	}
	g.forChunks(rows, 2, func() {
		row(true)
		g.LEAQ(Mem{Base: x, Index: ldx, Scale: 2}, x)
		g.ADDQ(ld, dst)
	})
	even := g.label("even")
	g.TESTQ(rows, rows)
	g.JEQ(LabelRef(even))
	row(false)
	g.Label(even)
	g.leave()
}

// emitColumns emits columns: it transposes 8×8 words of 32 bits. A vector has four
// words of row t and four of row t+4, so that its halves need not be exchanged.
func emitColumns(g *generator) {
	g.function("columns", "func(dst *int16, ld int, rows *int16, n int)", "kernels.columns")
	dst, ld, rows, n := g.param("dst"), g.param("ld"), g.param("rows"), g.param("n")
	g.SHLQ(U8(2), ld)
	g.SHLQ(U8(1), n)
	at := g.rowPointers(rows, n, 8)
	to := g.rowPointers(dst, ld, 8)
	for h := range 2 {
		var x [4]vec
		for t := range x {
			x[t] = g.YMM()
			low, high := at(t), at(t+4)
			low.Disp, high.Disp = 16*h, 16*h
			g.VMOVDQU(low, x[t].AsX())
			g.VINSERTI128(U8(1), high, x[t], x[t])
		}
		var pairs [4]vec // words 0, 1 of rows 0, 1; words 2, 3 of rows 0, 1; the same of rows 2, 3
		for i := range 2 {
			low, high := g.YMM(), g.YMM()
			g.VPUNPCKLDQ(x[2*i+1], x[2*i], low)
			g.VPUNPCKHDQ(x[2*i+1], x[2*i], high)
			pairs[2*i], pairs[2*i+1] = low, high
		}
		for c := range 4 {
			y := g.YMM()
			if c%2 == 0 {
				g.VPUNPCKLQDQ(pairs[2+c/2], pairs[c/2], y)
			} else {
				g.VPUNPCKHQDQ(pairs[2+c/2], pairs[c/2], y)
			}
			g.VMOVDQU(y, to(4*h+c))
		}
	}
	g.leave()
}
