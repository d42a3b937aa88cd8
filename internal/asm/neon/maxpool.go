package neon

import (
	"fmt"
	"math"
)

// maxPoolRows emits the maxPoolRowsFunc for a stride. Four columns whose positions are all in
// the row are computed together, others one by one.
func maxPoolRows(stride int) *function {
	f := newFunction(fmt.Sprintf("maxPoolRows%dNEON", stride),
		"func(dst *float32, arg *int32, cols int, img *float32, offset, lds, khs, kws, w, dil, width, rows, step int)")
	p := maxPool{f: f, stride: stride}
	r := f.loads("dst", "arg", "img", "offset", "lds", "khs", "kws", "dil", "width", "rows", "step")
	p.dst, p.arg, p.img, p.offset, p.lds, p.khs, p.kws, p.dil, p.width = r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8]
	rows, step := r[9], r[10]
	p.places = f.wordVector([4]uint32{0, uint32(stride), uint32(2 * stride), uint32(3 * stride)}).reg
	p.lowest = f.num(math.Inf(-1))
	p.right, p.down = f.vec(), f.vec()
	f.op("VDUP R%d, V%d.S4", p.dil, p.right)
	f.op("VDUP R%d, V%d.S4", p.lds, p.down)
	// Four columns are in the row if the first position is 0 … end-1.
	end := f.gp()
	f.op("MUL R%d, R%d, R%d", p.kws, p.dil, end)
	f.op("SUB R%d, R%d, R%d", end, p.width, end)
	f.op("ADD R%d, R%d, R%d", p.dil, end, end)
	increment(f, end, -3*stride)

	repeat(f, rows, func() {
		cols := f.load("cols")
		p.first = f.load("w")
		loop, single, done := f.label("column"), f.label("one"), f.label("done")
		f.at(loop)
		f.op("CMP $4, R%d", cols)
		f.branch("BLT", single)
		f.branch("TBNZ $63, R%d,", single, p.first)
		f.op("CMP R%d, R%d", end, p.first)
		f.branch("BGE", single)
		p.columns(4)
		increment(f, cols, -4)
		f.branch("CBNZ R%d,", loop, cols)
		f.branch("B", done)
		f.at(single)
		p.columns(1)
		increment(f, cols, -1)
		f.branch("CBNZ R%d,", loop, cols)
		f.at(done)
		f.op("ADD R%d, R%d, R%d", step, p.offset, p.offset)
	})
	f.ret()
	return f
}

// maxPool is the state of the kernel maxPoolRows.
type maxPool struct {
	f                                                       *function
	stride                                                  int
	dst, arg, img, offset, lds, khs, kws, first, dil, width *reg
	places, lowest, right, down                             *reg
}

// columns computes four columns, or one column in lane 0.
func (p maxPool) columns(n int) {
	f := p.f
	start, row, khs := f.gp(), f.gp(), f.gp()
	f.op("ADD R%d, R%d, R%d", p.first, p.offset, start)
	f.op("ADD R%d<<2, R%d, R%d", start, p.img, row)
	f.op("MOVD R%d, R%d", p.khs, khs)
	rowPlace, best, arg := f.vec(), copyOf(f, p.lowest), f.vec()
	f.op("VDUP R%d, V%d.S4", start, rowPlace)
	f.op("VADD V%d.S4, V%d.S4, V%d.S4", p.places, rowPlace, rowPlace)
	f.op("VCMEQ V%d.S4, V%d.S4, V%d.S4", best, best, arg) // -1: no position yet
	repeat(f, khs, func() {
		at, column, kws := f.gp(), f.gp(), f.gp()
		f.op("MOVD R%d, R%d", row, at)
		f.op("MOVD R%d, R%d", p.first, column)
		f.op("MOVD R%d, R%d", p.kws, kws)
		place := copyOf(f, rowPlace)
		repeat(f, kws, func() {
			skip := f.label("skip")
			var x *reg
			if n == 1 {
				f.op("CMP R%d, R%d", p.width, column)
				f.branch("BHS", skip) // unsigned: negative positions, too
				x = f.vec()
				f.op("FMOVS (R%d), F%d", at, x)
			} else {
				x = loadStrided(f, at, p.stride)
			}
			larger := f.make("fcmgt v%d.4s, v%d.4s, v%d.4s", x, best)
			number := f.make("fcmeq v%d.4s, v%d.4s, v%d.4s", x, x)
			larger = or(f, f.make("orn v%d.16b, v%d.16b, v%d.16b", larger, number), signMask(f, arg))
			f.op("VBIT V%d.B16, V%d.B16, V%d.B16", larger, x, best)
			f.op("VBIT V%d.B16, V%d.B16, V%d.B16", larger, place, arg)
			f.at(skip)
			f.op("VADD V%d.S4, V%d.S4, V%d.S4", p.right, place, place)
			f.op("ADD R%d, R%d, R%d", p.dil, column, column)
			f.op("ADD R%d<<2, R%d, R%d", p.dil, at, at)
		})
		f.op("VADD V%d.S4, V%d.S4, V%d.S4", p.down, rowPlace, rowPlace)
		f.op("ADD R%d<<2, R%d, R%d", p.lds, row, row)
	})
	move := map[int]string{4: "FMOVQ", 1: "FMOVS"}[n]
	f.op(fmt.Sprintf("%s.P F%%d, %d(R%%d)", move, 4*n), best, p.dst)
	f.op(fmt.Sprintf("%s.P F%%d, %d(R%%d)", move, 4*n), arg, p.arg)
	increment(f, p.first, n*p.stride)
}
