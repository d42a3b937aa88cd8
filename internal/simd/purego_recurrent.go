package simd

import (
	"math"
	"unsafe"
)

func lstmStepGo(trace, hidden, squashed, x, p, before *float32, n int) {
	y, s, r := unsafe.Slice(trace, 5*n), unsafe.Slice(x, 4*n), unsafe.Slice(p, 4*n)
	h, tc, last := unsafe.Slice(hidden, n), unsafe.Slice(squashed, n), unsafe.Slice(before, n)
	for j := range h {
		i, f := sigmoidGo(s[j]+r[j]), sigmoidGo(s[n+j]+r[n+j])
		g, o := float32(math.Tanh(float64(s[2*n+j]+r[2*n+j]))), sigmoidGo(s[3*n+j]+r[3*n+j])
		c := float32(f*last[j]) + float32(i*g)
		y[j], y[n+j], y[2*n+j], y[3*n+j], y[4*n+j] = i, f, g, o, c
		tc[j] = float32(math.Tanh(float64(c)))
		h[j] = o * tc[j]
	}
}

func lstmSignalsGo(d, cell, trace, squashed, before, grad, back *float32, n int) {
	y, s := unsafe.Slice(trace, 5*n), unsafe.Slice(d, 4*n)
	k, tc, last := unsafe.Slice(cell, n), unsafe.Slice(squashed, n), unsafe.Slice(before, n)
	above, after := unsafe.Slice(grad, n), unsafe.Slice(back, n)
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
