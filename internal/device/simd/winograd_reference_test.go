package simd

import "unsafe"

// reference is pure Go with the transforms as explicit formulas.
var reference = func() kernels {
	k := pureGo
	k.winograd = [2]winogradKernels{
		winogradGo(3, overFilter3, overImage3, overSignal3, overResult3, overGradient3),
		winogradGo(5, overFilter5, overImage5, overSignal5, overResult5, overGradient5),
	}
	return k
}()

// linear is a linear map of a row. Products are rounded before they are added, as everywhere
// in pure Go.
type linear func(out, in []float32)

// The maps of a row for three taps. Their matrices are those of Lavin & Gray 2016, section
// 4.1: G, Bᵀ, A, Aᵀ and Gᵀ.

func overFilter3(out, f []float32) {
	ends := f[0] + f[2]
	out[0] = f[0]
	out[1] = float32((ends + f[1]) * 0.5)
	out[2] = float32((ends - f[1]) * 0.5)
	out[3] = f[2]
}

func overImage3(out, d []float32) {
	out[0], out[1], out[2], out[3] = d[0]-d[2], d[1]+d[2], d[2]-d[1], d[1]-d[3]
}

func overSignal3(out, y []float32) {
	out[0], out[1], out[2], out[3] = y[0], y[0]+y[1], y[0]-y[1], 0-y[1]
}

func overResult3(out, m []float32) {
	sum, difference := m[1]+m[2], m[1]-m[2]
	out[0], out[1] = m[0]+sum, difference-m[3]
}

func overGradient3(out, s []float32) {
	sum := float32((s[1] + s[2]) * 0.5)
	out[0], out[1], out[2] = s[0]+sum, float32((s[1]-s[2])*0.5), sum+s[3]
}

// The maps of a row for five taps, from the points 0, 1, -1, ½, -2 and ∞ by the construction of
// Toom and Cook. With M_j(x) = Π (x - a_l) over the other points, row j of Bᵀ contains the
// coefficients of M_j, row j of G the powers of a_j divided by M_j(a_j), and column j of Aᵀ the
// powers of a_j. The point ∞ uses Π (x - a_l) over all points and the highest power.

func overFilter5(out, f []float32) {
	out[0] = f[0]
	even, odd := f[0]+f[2]+f[4], f[1]+f[3]
	out[1] = float32((even + odd) * (1. / 3))
	out[2] = float32((odd - even) * (1. / 3))
	odd = float32(f[1]*0.5) + float32(f[3]*0.125)
	even = f[0] + float32(f[2]*0.25) + float32(f[4]*0.0625)
	out[3] = float32((even + odd) * (-16. / 15))
	odd = float32(f[1]*2) + float32(f[3]*8)
	even = f[0] + float32(f[2]*4) + float32(f[4]*16)
	out[4] = float32((even - odd) * (1. / 15))
	out[5] = f[4]
}

func overImage5(out, d []float32) {
	odd, even := d[3]-d[1], d[4]-d[2]
	out[0] = (d[0] + d[4]) + (float32(odd*1.5) - float32(d[2]*2))
	out[1] = (d[4] - d[1]) + (float32(d[2]*0.5) + float32(d[3]*2.5))
	out[2] = (d[4] + d[1]) + (float32(d[3]*0.5) - float32(d[2]*2.5))
	out[3] = even + float32(odd*2)
	out[4] = even - float32(odd*0.5)
	out[5] = (d[5] + d[1]) + (float32(even*1.5) - float32(d[3]*2))
}

func overSignal5(out, y []float32) {
	out[0], out[1], out[2] = y[0], y[0]+y[1], y[0]-y[1]
	out[3], out[4], out[5] = y[0]+float32(y[1]*0.5), y[0]-float32(y[1]*2), y[1]
}

func overResult5(out, m []float32) {
	out[0] = (m[0] + (m[1] + m[2])) + (m[3] + m[4])
	out[1] = ((m[1] - m[2]) + m[5]) + (float32(m[3]*0.5) - float32(m[4]*2))
}

func overGradient5(out, s []float32) {
	even, odd := float32((s[1]-s[2])*(1./3)), float32((s[1]+s[2])*(1./3))
	third, fourth := float32(s[3]*(-16./15)), float32(s[4]*(1./15))
	out[0] = (s[0] + even) + (third + fourth)
	out[1] = odd + (float32(third*0.5) - float32(fourth*2))
	out[2] = even + (float32(third*0.25) + float32(fourth*4))
	out[3] = odd + (float32(third*0.125) - float32(fourth*8))
	out[4] = (s[5] + even) + (float32(third*0.0625) + float32(fourth*16))
}

// twice applies a map to the rows of height×width numbers and then to the columns. The result
// has side columns.
func (f linear) twice(out *[6][6]float32, in *[6][6]float32, height, width, side int) {
	var across [6][6]float32
	for i := range height {
		f(across[i][:], in[i][:width])
	}
	for j := range side {
		var column, result [6]float32
		for i := range height {
			column[i] = across[i][j]
		}
		f(result[:], column[:height])
		for i := range side {
			out[i][j] = result[i]
		}
	}
}

// winogradGo makes the transforms from the maps of a row.
func winogradGo(taps int, overFilter, overImage, overSignal, overResult, overGradient linear) winogradKernels {
	points, size := taps+1, taps*taps
	planes := func(p *float32, plane, n int) []float32 { return unsafe.Slice(p, (points*points-1)*plane+n) }
	tiles := func(f linear, height int) func(dst *float32, plane int, rows *float32, ld, vectors int) {
		return func(dst *float32, plane int, rows *float32, ld, vectors int) {
			n := vectors * WinogradLanes
			to, from := planes(dst, plane, n), unsafe.Slice(rows, (height-1)*ld+2*n+height-2)
			for t := range n {
				var in, out [6][6]float32
				for i := range height {
					copy(in[i][:height], from[i*ld+2*t:])
				}
				f.twice(&out, &in, height, height, points)
				for i := range points * points {
					to[i*plane+t] = out[i/points][i%points]
				}
			}
		}
	}
	return winogradKernels{
		filters: func(dst *float32, plane int, filters *float32, vectors int) {
			n := vectors * WinogradLanes
			to, from := planes(dst, plane, n), unsafe.Slice(filters, size*n)
			for k := range n {
				var in, out [6][6]float32
				for i := range taps {
					copy(in[i][:taps], from[k*size+i*taps:])
				}
				overFilter.twice(&out, &in, taps, taps, points)
				for i := range points * points {
					to[i*plane+k] = out[i/points][i%points]
				}
			}
		},
		image:  tiles(overImage, points),
		signal: tiles(overSignal, 2),
		result: func(top, bottom, src *float32, plane, vectors int, bias, floor float32) {
			n := vectors * WinogradLanes
			from := planes(src, plane, n)
			rows := [2][]float32{unsafe.Slice(top, 2*n), unsafe.Slice(bottom, 2*n)}
			for t := range n {
				var in, out [6][6]float32
				for i := range points * points {
					in[i/points][i%points] = from[i*plane+t]
				}
				overResult.twice(&out, &in, points, points, 2)
				for r, row := range rows {
					for j := range 2 {
						x := out[r][j] + bias
						if floor > x {
							x = floor
						}
						row[2*t+j] = x
					}
				}
			}
		},
		gradients: func(filters, src *float32, plane, vectors int) {
			n := vectors * WinogradLanes
			to, from := unsafe.Slice(filters, size*n), planes(src, plane, n)
			for k := range n {
				var in, out [6][6]float32
				for i := range points * points {
					in[i/points][i%points] = from[i*plane+k]
				}
				overGradient.twice(&out, &in, points, points, taps)
				for i := range taps {
					copy(to[k*size+i*taps:], out[i][:taps])
				}
			}
		},
	}
}
