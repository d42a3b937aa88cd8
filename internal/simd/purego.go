package simd

import (
	"math"
	"unsafe"
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

// span is the memory of rows rows of width floats, stride floats apart.
func span(p *float32, width, rows, stride int) []float32 {
	if width == 0 || rows == 0 {
		return nil
	}
	return unsafe.Slice(p, (rows-1)*stride+width)
}

// tileGo reads A[i][p] at a[i*row+p*step]. Products are rounded before they are
// added, so that no compiler fuses them at one place and not at another.
func tileGo(m, n, k int, a []float32, row, step int, b []float32, ldb int, c []float32, ldc int, flags int, bias *float32) {
	var sums [8][16]float32
	if k > 0 {
		for i := 0; i < m; i += 4 {
			for j := 0; j < n; j += 2 {
				// Beyond the edge the last row or column is taken again.
				i1, i2, i3, j1 := min(i+1, m-1), min(i+2, m-1), min(i+3, m-1), min(j+1, n-1)
				x0, x1, x2, x3 := a[i*row:], a[i1*row:], a[i2*row:], a[i3*row:]
				y0, y1 := b[j:], b[j1:]
				var s00, s01, s10, s11, s20, s21, s30, s31 float32
				pa, pb := 0, 0
				for range k {
					u, v := y0[pb], y1[pb]
					w := x0[pa]
					s00 += float32(w * u)
					s01 += float32(w * v)
					w = x1[pa]
					s10 += float32(w * u)
					s11 += float32(w * v)
					w = x2[pa]
					s20 += float32(w * u)
					s21 += float32(w * v)
					w = x3[pa]
					s30 += float32(w * u)
					s31 += float32(w * v)
					pa += step
					pb += ldb
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
