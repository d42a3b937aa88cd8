package simd

import (
	"math"
	"unsafe"
)

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

// unary and binary make a kernel of a function of one element.
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

// Beyond normalEnd Φ(-x) is below what float32 can hold.
const normalEnd = 15

func geluGo(x float32) float32 {
	v := max(float64(x), -normalEnd)
	return float32(v * math.Erfc(-v/math.Sqrt2) / 2)
}

func geluGradGo(dy, x float32) float32 {
	v := min(max(float64(x), -normalEnd), normalEnd)
	return dy * float32(math.Erfc(-v/math.Sqrt2)/2+v*math.Exp(-v*v/2)/math.Sqrt(2*math.Pi))
}

// lanes64 sums n terms as the assembly does.
func lanes64(n int, term func(i int) float64) float64 {
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
	return lanes64(n, func(i int) float64 { return float64(a[i]) * float64(b[i]) })
}

func sumGo(x *float32, n int) float64 {
	a := unsafe.Slice(x, n)
	return lanes64(n, func(i int) float64 { return float64(a[i]) })
}

func sumSquaresGo(x *float32, n int) float64 { return dotGo(x, x, n) }

func deviationsGo(x *float32, n int, mean float64) float64 {
	a := unsafe.Slice(x, n)
	return lanes64(n, func(i int) float64 { v := float64(a[i]) - mean; return float64(v * v) })
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
