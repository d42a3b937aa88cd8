package simd

import "unsafe"

// Products are rounded before they are added, as everywhere in pure Go.

func winogradFiltersGo(dst *float32, plane int, filters *float32, vectors int) {
	n := vectors * WinogradLanes
	to, from := unsafe.Slice(dst, 15*plane+n), unsafe.Slice(filters, 9*n)
	across := func(k, row int, a, b, c float32) {
		ends := a + c
		to[4*row*plane+k] = a
		to[(4*row+1)*plane+k] = (ends + b) * 0.5
		to[(4*row+2)*plane+k] = (ends - b) * 0.5
		to[(4*row+3)*plane+k] = c
	}
	for k := range n {
		f := from[9*k:][:9]
		var plus, minus [3]float32
		for j := range 3 {
			ends := f[j] + f[6+j]
			plus[j] = float32((ends + f[3+j]) * 0.5)
			minus[j] = float32((ends - f[3+j]) * 0.5)
		}
		across(k, 0, f[0], f[1], f[2])
		across(k, 1, plus[0], plus[1], plus[2])
		across(k, 2, minus[0], minus[1], minus[2])
		across(k, 3, f[6], f[7], f[8])
	}
}

func winogradSignalGo(dst *float32, plane int, rows *float32, ld, vectors int) {
	n := vectors * WinogradLanes
	to, from := unsafe.Slice(dst, 15*plane+n), unsafe.Slice(rows, ld+2*n)
	for t := range n {
		across := func(row int, left, right float32) {
			to[4*row*plane+t] = left
			to[(4*row+1)*plane+t] = left + right
			to[(4*row+2)*plane+t] = left - right
			to[(4*row+3)*plane+t] = 0 - right
		}
		a, b, c, d := from[2*t], from[2*t+1], from[ld+2*t], from[ld+2*t+1]
		across(0, a, b)
		across(1, a+c, b+d)
		across(2, a-c, b-d)
		across(3, 0-c, 0-d)
	}
}

func winogradGradientsGo(filters, src *float32, plane, vectors int) {
	n := vectors * WinogradLanes
	to, from := unsafe.Slice(filters, 9*n), unsafe.Slice(src, 15*plane+n)
	fold := func(a, b, c, d float32) [3]float32 {
		sum := float32((b + c) * 0.5)
		return [3]float32{a + sum, float32((b - c) * 0.5), sum + d}
	}
	for k := range n {
		var across [4][3]float32
		for i := range across {
			s := from[4*i*plane+k:]
			across[i] = fold(s[0], s[plane], s[2*plane], s[3*plane])
		}
		for j := range 3 {
			f := fold(across[0][j], across[1][j], across[2][j], across[3][j])
			to[9*k+j], to[9*k+3+j], to[9*k+6+j] = f[0], f[1], f[2]
		}
	}
}

func winogradImageGo(dst *float32, plane int, rows *float32, ld, vectors int) {
	n := vectors * WinogradLanes
	to, from := unsafe.Slice(dst, 15*plane+n), unsafe.Slice(rows, 3*ld+2*n+2)
	for t := range n {
		var across [4][4]float32
		for r := range across {
			d := from[r*ld+2*t:][:4]
			across[r] = [4]float32{d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]}
		}
		for j := range 4 {
			to[j*plane+t] = across[0][j] - across[2][j]
			to[(4+j)*plane+t] = across[1][j] + across[2][j]
			to[(8+j)*plane+t] = across[2][j] - across[1][j]
			to[(12+j)*plane+t] = across[1][j] - across[3][j]
		}
	}
}

func winogradResultGo(top, bottom, src *float32, plane, vectors int, bias, floor float32) {
	n := vectors * WinogradLanes
	from := unsafe.Slice(src, 15*plane+n)
	rows := [2][]float32{unsafe.Slice(top, 2*n), unsafe.Slice(bottom, 2*n)}
	above := func(x float32) float32 {
		if floor > x {
			return floor
		}
		return x
	}
	for t := range n {
		var down [2][4]float32
		for j := range 4 {
			m := func(i int) float32 { return from[(4*i+j)*plane+t] }
			down[0][j] = m(1) + m(0) + m(2)
			down[1][j] = m(1) - m(2) - m(3)
		}
		for r, s := range down {
			rows[r][2*t] = above(s[0] + s[1] + s[2] + bias)
			rows[r][2*t+1] = above(s[1] - s[2] - s[3] + bias)
		}
	}
}
