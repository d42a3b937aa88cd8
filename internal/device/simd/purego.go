package simd

import (
	"math"
	"unsafe"

	"github.com/dptrain/dptrain/internal/half"
)

var pureGo = kernels{
	name: "go",
	mr:   8, nr: 16, exactRead: true,
	tileRows: func(m, n, k int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int, flags int, bias *float32) {
		tileGo(m, n, k, span(a, k, m, lda), lda, 1, span(b, n, k, ldb), ldb, span(c, n, m, ldc), ldc, flags, bias)
	},
	tileCols: func(m, n, k int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int, flags int, bias *float32) {
		tileGo(m, n, k, span(a, m, k, lda), 1, lda, span(b, n, k, ldb), ldb, span(c, n, m, ldc), ldc, flags, bias)
	},
	packRows:   packRowsGo,
	transpose8: transpose8Go,

	widenBFloat16: widenGo(half.BFloat16), widenFloat16: widenGo(half.Float16),

	add:         addGo,
	mul:         mulGo,
	scale:       scaleGo,
	axpy:        axpyGo,
	relu:        reluGo,
	reluGrad:    reluGradGo,
	exp:         expGo,
	tanh:        unary(func(x float32) float32 { return float32(math.Tanh(float64(x))) }),
	tanhGrad:    binary(func(dy, y float32) float32 { return dy * (1 - float32(y*y)) }),
	sigmoid:     unary(sigmoidGo),
	sigmoidGrad: binary(func(dy, y float32) float32 { return float32(dy*y) * (1 - y) }),
	gelu:        unary(geluGo),
	geluGrad:    binary(geluGradGo),
	softmaxGrad: softmaxGradGo,

	normalize: normalizeGo, normalizeGrad: normalizeGradGo, deviations: deviationsGo,

	sumRows:     sumRowsGo,
	addToRows:   addToRowsGo,
	lstmStep:    lstmStepGo,
	lstmSignals: lstmSignalsGo,
	dot:         dotGo,
	sum:         sumGo,
	sumSquares:  sumSquaresGo,
	maximum:     maximumGo,
	colSums:     colSumsGo,
}

// span returns the memory of rows of width floats, stride floats apart.
func span(p *float32, width, rows, stride int) []float32 {
	if width == 0 || rows == 0 {
		return nil
	}
	return unsafe.Slice(p, (rows-1)*stride+width)
}

// tileGo reads A[i][p] at a[i*row+p*step]. It rounds products before it adds them, so that
// the compiler cannot fuse some of them.
func tileGo(m, n, k int, a []float32, row, step int, b []float32, ldb int, c []float32, ldc int, flags int, bias *float32) {
	var sums [8][16]float32
	if k > 0 {
		for i := 0; i < m; i += 4 {
			for j := 0; j < n; j += 2 {
				// Past the edge, the last row or column is computed again.
				i1, i2, i3, j1 := min(i+1, m-1), min(i+2, m-1), min(i+3, m-1), min(j+1, n-1)
				// The last element that each pointer reads is checked here, and not in the loop.
				x0, x1 := elements(a, i*row, k, step), elements(a, i1*row, k, step)
				x2, x3 := elements(a, i2*row, k, step), elements(a, i3*row, k, step)
				y0, y1 := elements(b, j, k, ldb), elements(b, j1, k, ldb)
				var s00, s01, s10, s11, s20, s21, s30, s31 float32
				pa, pb := uintptr(0), uintptr(0)
				for range k {
					u, v := load(y0, pb), load(y1, pb)
					w := load(x0, pa)
					s00 += float32(w * u)
					s01 += float32(w * v)
					w = load(x1, pa)
					s10 += float32(w * u)
					s11 += float32(w * v)
					w = load(x2, pa)
					s20 += float32(w * u)
					s21 += float32(w * v)
					w = load(x3, pa)
					s30 += float32(w * u)
					s31 += float32(w * v)
					pa += 4 * uintptr(step)
					pb += 4 * uintptr(ldb)
				}
				sums[i][j], sums[i][j+1] = s00, s01
				sums[i+1][j], sums[i+1][j+1] = s10, s11
				sums[i+2][j], sums[i+2][j+1] = s20, s21
				sums[i+3][j], sums[i+3][j+1] = s30, s31
			}
		}
	}
	for i := range m {
		finishRow(c[i*ldc:i*ldc+n], sums[i][:n], i, flags, bias)
	}
}

// elements points to s[from], after a check that s has k elements from there, step apart.
func elements(s []float32, from, k, step int) unsafe.Pointer {
	_ = s[from+(k-1)*step]
	return unsafe.Pointer(&s[from])
}

func load(p unsafe.Pointer, offset uintptr) float32 { return *(*float32)(unsafe.Add(p, offset)) }

// finishRow applies the flags to one row of sums and stores it.
func finishRow(c, sums []float32, i, flags int, bias *float32) {
	var shift []float32
	if flags&flagColBias != 0 {
		shift = unsafe.Slice(bias, len(c))
	}
	for j, v := range sums {
		if flags&flagAdd != 0 {
			v += c[j]
		}
		if shift != nil {
			v += shift[j]
		}
		if flags&flagRowBias != 0 {
			v += unsafe.Slice(bias, i+1)[i]
		}
		if flags&flagReLU != 0 && v < 0 {
			v = 0
		}
		c[j] = v
	}
}

func packRowsGo(dst *float32, width int, src *float32, lds, rows, cols int, factors *float32) {
	for r := range rows {
		d := unsafe.Slice(dst, (r+1)*width)[r*width:]
		s := unsafe.Slice(src, r*lds+cols)[r*lds:]
		clear(d[cols:])
		if factors == nil {
			copy(d, s)
			continue
		}
		switch f := unsafe.Slice(factors, r+1)[r]; f {
		case 0:
			clear(d[:cols])
		default:
			for j, v := range s {
				d[j] = v * f
			}
		}
	}
}

func widenGo(f half.Format) func(dst *float32, ldd int, src *uint16, lds, rows, blocks int) {
	return func(dst *float32, ldd int, src *uint16, lds, rows, blocks int) {
		to, from := span(dst, 8*blocks, rows, ldd), unsafe.Slice(src, (rows-1)*lds+8*blocks)
		for r := range rows {
			for c, bits := range from[r*lds:][:8*blocks] {
				to[r*ldd+c] = f.Value(bits)
			}
		}
	}
}

func transpose8Go(dst *float32, ldd int, src *float32, lds, blocks int) {
	if blocks == 0 {
		return
	}
	d, s := span(dst, 8, 8*blocks, ldd), span(src, 8*blocks, 8, lds)
	for r := range 8 {
		for c := range 8 * blocks {
			d[c*ldd+r] = s[r*lds+c]
		}
	}
}

func addGo(dst, x, y *float32, n int) {
	d, a, b := unsafe.Slice(dst, n), unsafe.Slice(x, n), unsafe.Slice(y, n)
	for i := range d {
		d[i] = a[i] + b[i]
	}
}

func mulGo(dst, x, y *float32, n int) {
	d, a, b := unsafe.Slice(dst, n), unsafe.Slice(x, n), unsafe.Slice(y, n)
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

func scaleGo(dst, x *float32, n int, alpha float32) {
	d, a := unsafe.Slice(dst, n), unsafe.Slice(x, n)
	for i := range d {
		d[i] = a[i] * alpha
	}
}

func axpyGo(dst, x *float32, n int, alpha float32) {
	d, a := unsafe.Slice(dst, n), unsafe.Slice(x, n)
	for i := range d {
		d[i] += float32(a[i] * alpha)
	}
}

func normalizeGo(dst, x *float32, n int, mean, rest, scale float32) {
	d, a := unsafe.Slice(dst, n), unsafe.Slice(x, n)
	for i, v := range a {
		d[i] = (v - mean - rest) * scale
	}
}

func normalizeGradGo(dst, x, d *float32, n int, mean, slope, shift, scale float32) {
	y, a, b := unsafe.Slice(dst, n), unsafe.Slice(x, n), unsafe.Slice(d, n)
	for i, v := range b {
		y[i] = (v - shift - float32((a[i]-mean)*slope)) * scale
	}
}

func softmaxGradGo(dst, p, dp *float32, n int, mean, scale float32) {
	d, a, b := unsafe.Slice(dst, n), unsafe.Slice(p, n), unsafe.Slice(dp, n)
	for i, v := range a {
		x := b[i] - mean
		if d[i] = float32(v*x) * scale; v == 0 {
			d[i] = 0
		}
	}
}

func reluGo(dst, x *float32, n int) {
	d, a := unsafe.Slice(dst, n), unsafe.Slice(x, n)
	for i, v := range a {
		if v < 0 {
			v = 0
		}
		d[i] = v
	}
}

func reluGradGo(dst, dy, y *float32, n int) {
	d, a, b := unsafe.Slice(dst, n), unsafe.Slice(dy, n), unsafe.Slice(y, n)
	for i := range d {
		v := a[i]
		if b[i] <= 0 {
			v = 0
		}
		d[i] = v
	}
}

// unary and binary make a kernel from a function of one element.
func unary(f func(x float32) float32) func(dst, x *float32, n int) {
	return func(dst, x *float32, n int) {
		d := unsafe.Slice(dst, n)
		for i, v := range unsafe.Slice(x, n) {
			d[i] = f(v)
		}
	}
}

func binary(f func(x, y float32) float32) func(dst, x, y *float32, n int) {
	return func(dst, x, y *float32, n int) {
		d, a, b := unsafe.Slice(dst, n), unsafe.Slice(x, n), unsafe.Slice(y, n)
		for i := range d {
			d[i] = f(a[i], b[i])
		}
	}
}

func expGo(dst, x *float32, n int, shift float32) {
	d := unsafe.Slice(dst, n)
	for i, v := range unsafe.Slice(x, n) {
		d[i] = float32(math.Exp(float64(v - shift)))
	}
}

func sigmoidGo(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

// Φ(-x) underflows float32 for x above normalEnd.
const normalEnd = 15

func geluGo(x float32) float32 {
	v := max(float64(x), -normalEnd)
	return float32(v * math.Erfc(-v/math.Sqrt2) / 2)
}

func geluGradGo(dy, x float32) float32 {
	v := min(max(float64(x), -normalEnd), normalEnd)
	return dy * float32(math.Erfc(-v/math.Sqrt2)/2+v*math.Exp(-v*v/2)/math.Sqrt(2*math.Pi))
}

// sumLanes64 sums n terms in the order of kernels.sum.
func sumLanes64(n int, term func(i int) float64) float64 {
	var lanes [32]float64
	for i := range n {
		lanes[i%32] += term(i)
	}
	for half := 16; half >= 1; half /= 2 {
		for i := range half {
			lanes[i] += lanes[i+half]
		}
	}
	return lanes[0]
}

func dotGo(x, y *float32, n int) float64 {
	a, b := unsafe.Slice(x, n), unsafe.Slice(y, n)
	return sumLanes64(n, func(i int) float64 { return float64(a[i]) * float64(b[i]) })
}

func sumGo(x *float32, n int) float64 {
	a := unsafe.Slice(x, n)
	return sumLanes64(n, func(i int) float64 { return float64(a[i]) })
}

func sumSquaresGo(x *float32, n int) float64 { return dotGo(x, x, n) }

func deviationsGo(x *float32, n int, mean float64) float64 {
	a := unsafe.Slice(x, n)
	return sumLanes64(n, func(i int) float64 { v := float64(a[i]) - mean; return float64(v * v) })
}

func maximumGo(x *float32, n int) float32 {
	top := float32(math.Inf(-1))
	for _, v := range unsafe.Slice(x, n) {
		if v > top {
			top = v
		}
	}
	return top
}

func colSumsGo(dst, x *float32, ldx, rows, cols int, factors *float32) {
	d, a := unsafe.Slice(dst, cols), unsafe.Slice(x, (rows-1)*ldx+cols)
	for c := range d {
		var sum float32
		for r := range rows {
			v := a[r*ldx+c]
			if factors != nil {
				f := unsafe.Slice(factors, rows)[r]
				if f == 0 {
					continue
				}
				v = float32(v * f)
			}
			sum += v
		}
		d[c] += sum
	}
}

func sumRowsGo(dst, table *float32, rows *int32, n, dim int) {
	d := unsafe.Slice(dst, dim)
	for _, r := range unsafe.Slice(rows, n) {
		row := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(table), 4*int(r)*dim)), dim)
		for j, v := range row {
			d[j] += v
		}
	}
}

func addToRowsGo(table *float32, rows *int32, n int, src *float32, dim int) {
	s := unsafe.Slice(src, dim)
	for _, r := range unsafe.Slice(rows, n) {
		row := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(table), 4*int(r)*dim)), dim)
		for j, v := range s {
			row[j] += v
		}
	}
}

func lstmStepGo(trace, hidden, cellTanh, x, p, previousCell *float32, n int) {
	y, s, r := unsafe.Slice(trace, 5*n), unsafe.Slice(x, 4*n), unsafe.Slice(p, 4*n)
	h, tc, last := unsafe.Slice(hidden, n), unsafe.Slice(cellTanh, n), unsafe.Slice(previousCell, n)
	for j := range h {
		i, f := sigmoidGo(s[j]+r[j]), sigmoidGo(s[n+j]+r[n+j])
		g, o := float32(math.Tanh(float64(s[2*n+j]+r[2*n+j]))), sigmoidGo(s[3*n+j]+r[3*n+j])
		c := float32(f*last[j]) + float32(i*g)
		y[j], y[n+j], y[2*n+j], y[3*n+j], y[4*n+j] = i, f, g, o, c
		tc[j] = float32(math.Tanh(float64(c)))
		h[j] = o * tc[j]
	}
}

func lstmSignalsGo(d, cell, trace, cellTanh, previousCell, grad, recurrentGrad *float32, n int) {
	y, s := unsafe.Slice(trace, 5*n), unsafe.Slice(d, 4*n)
	k, tc, last := unsafe.Slice(cell, n), unsafe.Slice(cellTanh, n), unsafe.Slice(previousCell, n)
	above, after := unsafe.Slice(grad, n), unsafe.Slice(recurrentGrad, n)
	for j := range k {
		v := above[j] + after[j]
		i, f, g, o, t := y[j], y[n+j], y[2*n+j], y[3*n+j], tc[j]
		dc := k[j] + float32(float32(v*o)*(1-float32(t*t)))
		s[j] = float32(float32(dc*g)*i) * (1 - i)
		s[n+j] = float32(float32(dc*last[j])*f) * (1 - f)
		s[2*n+j] = float32(dc*i) * (1 - float32(g*g))
		s[3*n+j] = float32(float32(v*t)*o) * (1 - o)
		k[j] = dc * f
	}
}
