package simd

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Flags of a tile, as in package simd.
const (
	flagAdd     = 1 << iota // add the value in C
	flagColBias             // add bias[j]
	flagRowBias             // add bias[i]
	flagReLU                // max(0, x); NaN stays NaN
)

// tileShape is one tile kernel. It computes C[0:m, 0:n] from m rows of A and n columns of B
// over k steps. Each element is one chain of fused multiply-adds in the order of k; its
// position in the tile does not matter. A is read in one of two ways:
//
//	rows: A[i][p] at a[i*lda+p]   (a matrix stored by rows)
//	cols: A[i][p] at a[p*lda+i]   (a transposed matrix, or a packed panel)
type tileShape struct {
	name     string
	lanes    int // floats in a vector
	mr       int // the most rows
	unroll   int // steps of k in the main loop
	vector   func(*generator) reg.VecVirtual
	byRows   bool
	maskable bool // AVX-512: loads and stores have masks
}

func gemmFile(g *generator) {
	masks := g.maskTable(8)
	for _, byRows := range []bool{true, false} {
		mode := map[bool]string{true: "Rows", false: "Cols"}[byRows]
		emitTile(g, masks, tileShape{
			name: "tile" + mode + "AVX2", lanes: 8, mr: 6, unroll: 4, byRows: byRows,
			vector: func(g *generator) reg.VecVirtual { return g.YMM() },
		})
		emitTile(g, masks, tileShape{
			name: "tile" + mode + "AVX512", lanes: 16, mr: 12, unroll: 2, byRows: byRows, maskable: true,
			vector: func(g *generator) reg.VecVirtual { return g.ZMM() },
		})
	}
	emitFMAPeak(g, "fmaPeakAVX2", func() reg.VecVirtual { return g.YMM() })
	emitFMAPeak(g, "fmaPeakAVX512", func() reg.VecVirtual { return g.ZMM() })
}

type tileArgs struct {
	m, n, k, a, lda, b, ldb, c, ldc, flags, bias reg.Register
	masks                                        Mem
}

func emitTile(g *generator, masks Mem, s tileShape) {
	g.function(s.name, "func(m, n, k int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int, flags int, bias *float32)")
	load := func(name string) reg.Register { return g.param(name) }
	t := tileArgs{
		m: load("m"), n: load("n"), k: load("k"),
		a: load("a"), lda: load("lda"), b: load("b"), ldb: load("ldb"),
		c: load("c"), ldc: load("ldc"), masks: masks,
	}
	g.SHLQ(U8(2), t.lda)
	g.SHLQ(U8(2), t.ldb)
	g.SHLQ(U8(2), t.ldc)
	var lanes []reg.Register
	if s.maskable {
		bits, all := g.GP64(), g.GP64()
		g.MOVQ(I32(-1), all)
		g.BZHIQ(t.n, all, bits)
		low, high := g.K(), g.K()
		g.KMOVW(bits.As32(), low)
		g.SHRQ(U8(16), bits)
		g.KMOVW(bits.As32(), high)
		lanes = []reg.Register{low, high}
	}
	body := func(s tileShape, vectors int) {
		for m := s.mr; m >= 1; m-- {
			next := g.label("next")
			if m > 1 {
				g.CMPQ(t.m, U8(m))
				g.JNE(LabelRef(next))
			}
			emitTileBody(g, s, t, m, vectors, lanes)
			if m > 1 {
				g.Label(next)
			}
		}
	}
	narrow, half := g.label("narrow"), g.label("half")
	g.CMPQ(t.n, U8(s.lanes))
	g.JLE(LabelRef(narrow))
	body(s, 2)
	g.Label(narrow)
	if s.maskable {
		g.CMPQ(t.n, U8(s.lanes/2))
		g.JLE(LabelRef(half))
	}
	body(s, 1)
	if s.maskable { // the processor does two multiply-adds of half a vector per cycle
		g.Label(half)
		s.lanes, s.vector = s.lanes/2, func(g *generator) reg.VecVirtual { return g.YMM() }
		body(s, 1)
	}
}

// emitTileBody is the kernel for exactly m rows and one or two vectors of columns.
func emitTileBody(g *generator, s tileShape, t tileArgs, m, vectors int, lanes []reg.Register) {
	acc := make([][]reg.VecVirtual, m)
	for i := range acc {
		acc[i] = make([]reg.VecVirtual, vectors)
		for v := range acc[i] {
			acc[i][v] = s.vector(g)
			g.VXORPS(acc[i][v], acc[i][v], acc[i][v])
		}
	}
	// Address of A[i] at step u. If A is stored by rows, one pointer serves three rows.
	a := []reg.Register{t.a}
	if s.byRows {
		for i := 3; i < m; i += 3 {
			p := g.GP64()
			g.LEAQ(Mem{Base: a[len(a)-1], Index: t.lda, Scale: 2}, p)
			g.ADDQ(t.lda, p)
			a = append(a, p)
		}
	}
	at := func(i, u int) Mem {
		if !s.byRows {
			return Mem{Base: t.a, Disp: 4 * i}
		}
		mem := Mem{Base: a[i/3], Disp: 4 * u}
		if i%3 > 0 {
			mem.Index, mem.Scale = t.lda, uint8(i%3)
		}
		return mem
	}
	steps := func(count int) {
		for u := range count {
			b := make([]reg.VecVirtual, vectors)
			for v := range b {
				b[v] = s.vector(g)
				mem := Mem{Base: t.b, Disp: 4 * s.lanes * v}
				if s.maskable {
					g.VMOVUPS_Z(mem, lanes[v], b[v])
				} else {
					g.VMOVUPS(mem, b[v])
				}
			}
			g.ADDQ(t.ldb, t.b)
			for i := range m {
				if s.maskable && vectors == 1 {
					g.VFMADD231PS_BCST(at(i, u), b[0], acc[i][0])
					continue
				}
				x := s.vector(g)
				g.VBROADCASTSS(at(i, u), x)
				for v := range b {
					g.VFMADD231PS(b[v], x, acc[i][v])
				}
			}
			if !s.byRows {
				g.ADDQ(t.lda, t.a)
			}
		}
		if s.byRows {
			for _, p := range a {
				g.ADDQ(U8(4*count), p)
			}
		}
	}
	// Prefetch the tile's elements of C, whose rows may be far apart.
	row := g.GP64()
	g.MOVQ(t.c, row)
	for i := range m {
		for at := 0; at < 4*s.lanes*vectors; at += 64 {
			g.PREFETCHT0(Mem{Base: row, Disp: at})
		}
		if i < m-1 {
			g.ADDQ(t.ldc, row)
		}
	}
	loop, tail, done := g.label("loop"), g.label("tail"), g.label("done")
	g.SUBQ(U8(s.unroll), t.k)
	g.JLT(LabelRef(tail))
	g.Label(loop)
	steps(s.unroll)
	g.SUBQ(U8(s.unroll), t.k)
	g.JGE(LabelRef(loop))
	g.Label(tail)
	g.ADDQ(U8(s.unroll), t.k)
	g.JEQ(LabelRef(done))
	g.repeat("single", t.k, func() { steps(1) })
	g.Label(done)
	finishTile(g, s, t, acc, lanes)
}

// finishTile applies the flags and stores the tile. The last vector may be partial.
func finishTile(g *generator, s tileShape, t tileArgs, acc [][]reg.VecVirtual, lanes []reg.Register) {
	vectors := len(acc[0])
	t.flags = g.param("flags")
	t.bias = g.param("bias")
	plain := g.label("store")
	if s.maskable {
		storeTile(g, s, t, acc, func(mem Mem, v int, x reg.Register) {
			g.VMOVUPS_Z(mem, lanes[v], x)
		}, func(x reg.Register, v int, mem Mem) {
			g.VMOVUPS(x, lanes[v], mem)
		})
		return
	}
	g.CMPQ(t.n, U8(s.lanes*vectors))
	g.JEQ(LabelRef(plain))
	// The last vector is partial: its mask starts at word lanes*vectors-n of the table.
	table, mask := g.GP64(), g.YMM()
	g.LEAQ(t.masks, table)
	word := g.GP64()
	g.MOVQ(U32(s.lanes*vectors), word)
	g.SUBQ(t.n, word)
	g.VMOVUPS(Mem{Base: table, Index: word, Scale: 4}, mask)
	storeTile(g, s, t, acc, func(mem Mem, v int, x reg.Register) {
		if v == vectors-1 {
			g.VMASKMOVPS(mem, mask, x)
		} else {
			g.VMOVUPS(mem, x)
		}
	}, func(x reg.Register, v int, mem Mem) {
		if v == vectors-1 {
			g.VMASKMOVPS(x, mask, mem)
		} else {
			g.VMOVUPS(x, mem)
		}
	})
	g.Label(plain)
	storeTile(g, s, t, acc, func(mem Mem, _ int, x reg.Register) { g.VMOVUPS(mem, x) },
		func(x reg.Register, _ int, mem Mem) { g.VMOVUPS(x, mem) })
}

// storeTile applies the flags and stores the tile with the given memory accesses.
func storeTile(g *generator, s tileShape, t tileArgs, acc [][]reg.VecVirtual,
	load func(Mem, int, reg.Register), store func(reg.Register, int, Mem)) {
	optional := func(flag int, body func()) {
		skip := g.label("skip")
		g.TESTQ(U32(flag), t.flags)
		g.JEQ(LabelRef(skip))
		body()
		g.Label(skip)
	}
	optional(flagAdd, func() {
		row := g.GP64()
		g.MOVQ(t.c, row)
		for i := range acc {
			for v := range acc[i] {
				x := s.vector(g)
				load(Mem{Base: row, Disp: 4 * s.lanes * v}, v, x)
				g.VADDPS(x, acc[i][v], acc[i][v])
			}
			if i < len(acc)-1 {
				g.ADDQ(t.ldc, row)
			}
		}
	})
	optional(flagColBias, func() {
		for v := range acc[0] {
			x := s.vector(g)
			load(Mem{Base: t.bias, Disp: 4 * s.lanes * v}, v, x)
			for i := range acc {
				g.VADDPS(x, acc[i][v], acc[i][v])
			}
		}
	})
	optional(flagRowBias, func() {
		for i := range acc {
			x := s.vector(g)
			g.VBROADCASTSS(Mem{Base: t.bias, Disp: 4 * i}, x)
			for v := range acc[i] {
				g.VADDPS(x, acc[i][v], acc[i][v])
			}
		}
	})
	optional(flagReLU, func() {
		zero := s.vector(g)
		g.VXORPS(zero, zero, zero)
		for i := range acc {
			for v := range acc[i] {
				g.VMAXPS(acc[i][v], zero, acc[i][v])
			}
		}
	})
	for i := range acc {
		for v := range acc[i] {
			store(acc[i][v], v, Mem{Base: t.c, Disp: 4 * s.lanes * v})
		}
		if i < len(acc)-1 {
			g.ADDQ(t.ldc, t.c)
		}
	}
	g.leave()
}

// emitFMAPeak emits a kernel that runs rounds of twelve independent fused multiply-adds, the
// fastest arithmetic of the processor. Kernels are measured against it.
func emitFMAPeak(g *generator, name string, vector func() reg.VecVirtual) {
	g.function(name, "func(rounds int)")
	rounds := g.param("rounds")
	x := vector()
	g.VXORPS(x, x, x)
	acc := make([]reg.VecVirtual, 12)
	for i := range acc {
		acc[i] = vector()
		g.VXORPS(acc[i], acc[i], acc[i])
	}
	g.repeat("loop", rounds, func() {
		for i := range acc {
			g.VFMADD231PS(x, x, acc[i])
		}
	})
	g.leave()
}
