package simd

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// windowFile emits the kernels of windows that slide over an image with stride 1 or 2. Vectors
// of eight cover the columns, vectors of four if there are fewer than eight. The last vector is
// moved back so that it fits and writes some results again. Lanes on padding are masked: they
// are not read.
func windowFile(g *generator) {
	for stride := 1; stride <= 2; stride++ {
		emitCopyTap(g, stride)
		emitMaxPoolRows(g, stride)
	}
	emitSumTaps(g)
	emitSumTaps2(g)
	emitUnfold(g)
	emitFold(g)
	emitMaxTaps(g)
	emitAddToMaxTaps(g)
}

// vectorOf returns a register of width lanes, 4 or 8.
func vectorOf(g *generator, width int) vec {
	if width == 4 {
		return g.XMM()
	}
	return g.YMM()
}

// forWidths emits body for vectors of eight and for vectors of four. The code chooses by cols.
func forWidths(g *generator, cols reg.Register, body func(width int)) {
	four := g.label("four")
	g.CMPQ(cols, U8(8))
	g.JLT(LabelRef(four))
	body(8)
	g.Label(four)
	body(4)
}

// forColumnGroups emits a loop that runs body for each vector of columns, from column j on.
func forColumnGroups(g *generator, cols reg.Register, width int, body func(j reg.GPVirtual)) {
	j, last := g.GP64(), g.GP64()
	g.XORQ(j, j)
	g.MOVQ(cols, last)
	g.SUBQ(U8(width), last)
	loop, end := g.label("group"), g.label("end")
	g.Label(loop)
	body(j)
	g.CMPQ(j, last)
	g.JEQ(LabelRef(end))
	g.ADDQ(U8(width), j)
	g.CMPQ(j, last)
	g.CMOVQGT(last, j)
	g.JMP(LabelRef(loop))
	g.Label(end)
}

// columnOffsets returns the vector start, start+step, …. With holes, every odd element is a
// number far outside any image.
func columnOffsets(g *generator, start, step int, holes bool) Mem {
	return g.words(fmt.Sprintf("spread%d_%d_%v", start, step, holes), 8, func(i int) uint32 {
		if holes && i%2 == 1 {
			return 1 << 30
		}
		return uint32(start + step*i)
	})
}

// broadcastInt copies the low half of a general register to every lane.
func broadcastInt(g *generator, r reg.GP, width int) vec {
	x := vectorOf(g, width)
	low := g.XMM()
	g.VMOVD(r.As32(), low)
	g.VPBROADCASTD(low, x)
	return x
}

// addInts returns x + y of integer lanes.
func addInts(g *generator, x vec, y Op, width int) vec {
	z := vectorOf(g, width)
	g.VPADDD(y, x, z)
	return z
}

// insideMask returns the mask of the lanes with 0 ≤ x < limit.
func insideMask(g *generator, x, limit, minusOne vec, width int) vec {
	low, high := vectorOf(g, width), vectorOf(g, width)
	g.VPCMPGTD(minusOne, x, low)
	g.VPCMPGTD(x, limit, high)
	g.VPAND(low, high, high)
	return high
}

// ones returns a vector with all bits set.
func ones(g *generator, width int) vec {
	x := vectorOf(g, width)
	g.VPCMPEQD(x, x, x)
	return x
}

// loadStrided loads width floats that are stride apart, with one mask per source vector. Masked
// lanes are 0.
func loadStrided(g *generator, m Mem, masks []vec, width int) vec {
	x := vectorOf(g, width)
	g.VMASKMOVPS(m, masks[0], x)
	if len(masks) == 1 {
		return x
	}
	y, z := vectorOf(g, width), vectorOf(g, width)
	m.Disp += 4 * width
	g.VMASKMOVPS(m, masks[1], y)
	g.VSHUFPS(U8(0x88), y, x, z)
	if width == 8 {
		g.VPERMPD(U8(0xd8), z, z)
	}
	return z
}

// sourceOffsets returns the position in the image row, relative to the first of a group, of
// each lane to load.
func sourceOffsets(g *generator, stride, width int) []Mem {
	if stride == 1 {
		return []Mem{columnOffsets(g, 0, 1, false)}
	}
	return []Mem{columnOffsets(g, 0, 1, true), columnOffsets(g, width, 1, true)}
}

// strideMasks returns the masks of the lanes to load for a group that starts at base.
func strideMasks(g *generator, base, limit, minusOne vec, stride, width int) (masks []vec) {
	for _, s := range sourceOffsets(g, stride, width) {
		masks = append(masks, insideMask(g, addInts(g, base, s, width), limit, minusOne, width))
	}
	return masks
}

// emitCopyTap emits the copyTapFunc for a stride.
func emitCopyTap(g *generator, stride int) {
	g.function(fmt.Sprintf("copyTap%dAVX2", stride), "func(dst *float32, cols int, img *float32, offset, lds, rows, w, width int)")
	dst := g.param("dst")
	cols := g.param("cols")
	img := g.param("img")
	offset := g.param("offset")
	lds := g.param("lds")
	w := g.param("w").(reg.GPVirtual)
	g.ADDQ(w, offset)
	g.LEAQ(Mem{Base: img, Index: offset, Scale: 4}, img)
	g.SHLQ(U8(2), lds)
	forWidths(g, cols, func(width int) {
		limit, minusOne := broadcastInt(g, g.param("width").(reg.GPVirtual), width), ones(g, width)
		forColumnGroups(g, cols, width, func(j reg.GPVirtual) {
			first := g.GP64()
			g.LEAQ(Mem{Base: w, Index: j, Scale: uint8(stride)}, first)
			base := broadcastInt(g, first, width)
			masks := strideMasks(g, base, limit, minusOne, stride, width)
			rows := g.param("rows")
			from, to := g.GP64(), g.GP64()
			g.LEAQ(Mem{Base: img, Index: j, Scale: uint8(4 * stride)}, from)
			g.LEAQ(Mem{Base: dst, Index: j, Scale: 4}, to)
			g.repeat("row", rows, func() {
				g.VMOVUPS(loadStrided(g, Mem{Base: from}, masks, width), Mem{Base: to})
				g.ADDQ(lds, from)
				g.LEAQ(Mem{Base: to, Index: cols, Scale: 4}, to)
			})
		})
		g.leave()
	})
}

// emitSumTaps emits sumTaps.
func emitSumTaps(g *generator) {
	g.function("sumTapsAVX2", "func(dst *float32, cols int, p *float32, offset, ldp, next, khs, kws, w, dil, width int)")
	dst := g.param("dst")
	cols := g.param("cols")
	p := g.param("p")
	offset := g.param("offset")
	g.LEAQ(Mem{Base: p, Index: offset, Scale: 4}, p)
	w := g.param("w").(reg.GPVirtual)
	step := g.param("ldp")
	dil := g.param("dil").(reg.GPVirtual)
	g.SUBQ(dil, step)
	g.SHLQ(U8(2), step)
	next := g.param("next")
	g.SHLQ(U8(2), next)
	forWidths(g, cols, func(width int) {
		limit, minusOne := broadcastInt(g, g.param("width").(reg.GPVirtual), width), ones(g, width)
		back := broadcastInt(g, dil, width)
		forColumnGroups(g, cols, width, func(j reg.GPVirtual) {
			first, row, khs := g.GP64(), g.GP64(), g.param("khs")
			g.LEAQ(Mem{Base: j, Index: w, Scale: 1}, first)
			start := addInts(g, broadcastInt(g, first, width), columnOffsets(g, 0, 1, false), width)
			g.LEAQ(Mem{Base: p, Index: first, Scale: 4}, row)
			sum := vectorOf(g, width)
			g.VXORPS(sum, sum, sum)
			g.repeat("kh", khs, func() {
				at, kws := g.GP64(), g.param("kws")
				g.MOVQ(row, at)
				place := vectorOf(g, width)
				g.VMOVAPS(start, place)
				g.repeat("kw", kws, func() {
					x := vectorOf(g, width)
					g.VMASKMOVPS(Mem{Base: at}, insideMask(g, place, limit, minusOne, width), x)
					g.VADDPS(x, sum, sum)
					g.VPSUBD(back, place, place)
					g.ADDQ(step, at)
				})
				g.ADDQ(next, row)
			})
			g.VMOVUPS(sum, Mem{Base: dst, Index: j, Scale: 4})
		})
		g.leave()
	})
}

// emitSumTaps2 emits sumTaps2. It computes the two phases of a row and interleaves them.
func emitSumTaps2(g *generator) {
	g.function("sumTaps2AVX2", "func(dst *float32, cols int, p *float32, offset0, offset1, ldp, next, khs, kws0, kws1, w0, w1, width int)")
	dst := g.param("dst")
	cols := g.param("cols")
	p := g.param("p")
	step := g.param("ldp")
	g.DECQ(step)
	g.SHLQ(U8(2), step)
	next := g.param("next")
	g.SHLQ(U8(2), next)
	limit, ones := broadcastInt(g, g.param("width").(reg.GPVirtual), 8), ones(g, 8)
	j, group := g.GP64(), g.label("group")
	g.XORQ(j, j)
	g.Label(group)
	var sums [2]vec
	for q := range sums {
		first := g.param([]string{"w0", "w1"}[q]).(reg.GPVirtual)
		g.ADDQ(j, first)
		start := addInts(g, broadcastInt(g, first, 8), columnOffsets(g, 0, 1, false), 8)
		row := g.param([]string{"offset0", "offset1"}[q])
		g.ADDQ(first, row)
		g.LEAQ(Mem{Base: p, Index: row, Scale: 4}, row)
		khs := g.param("khs")
		sums[q] = g.YMM()
		g.VXORPS(sums[q], sums[q], sums[q])
		khLoop, kwLoop, none := g.label("kh"), g.label("kw"), g.label("none")
		kws := g.param([]string{"kws0", "kws1"}[q])
		g.TESTQ(kws, kws)
		g.JEQ(LabelRef(none))
		g.Label(khLoop)
		at := g.GP64()
		g.MOVQ(row, at)
		count := g.GP64()
		g.MOVQ(kws, count)
		place := g.copyOf(start)
		g.Label(kwLoop)
		x := g.YMM()
		g.VMASKMOVPS(Mem{Base: at}, insideMask(g, place, limit, ones, 8), x)
		g.VADDPS(x, sums[q], sums[q])
		g.VPADDD(ones, place, place)
		g.ADDQ(step, at)
		g.DECQ(count)
		g.JNE(LabelRef(kwLoop))
		g.ADDQ(next, row)
		g.DECQ(khs)
		g.JNE(LabelRef(khLoop))
		g.Label(none)
	}
	low, high := g.YMM(), g.YMM()
	g.VUNPCKLPS(sums[1], sums[0], low)
	g.VUNPCKHPS(sums[1], sums[0], high)
	place, end := g.GP64(), broadcastInt(g, cols.(reg.GPVirtual), 8)
	g.LEAQ(Mem{Base: j, Index: j, Scale: 1}, place)
	here := addInts(g, broadcastInt(g, place, 8), columnOffsets(g, 0, 1, false), 8)
	for h, half := range []int{0x20, 0x31} {
		x, mask := g.YMM(), g.YMM()
		g.VPERM2F128(U8(half), high, low, x)
		if h == 1 {
			here = addInts(g, here, columnOffsets(g, 8, 0, false), 8)
		}
		g.VPCMPGTD(here, end, mask)
		g.VMASKMOVPS(x, mask, Mem{Base: dst, Index: place, Scale: 4, Disp: 32 * h})
	}
	g.ADDQ(U8(8), j)
	g.ADDQ(U8(16), place)
	g.CMPQ(place, cols)
	g.JLT(LabelRef(group))
	g.leave()
}
