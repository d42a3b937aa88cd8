package cpu

import (
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/simd"
)

// A tensor with channels is [rows, channels, inner] in memory.

func (c compiler) scaleShift(s op.ScaleShift, k call) func() {
	out, x, gamma, beta := k.out, k.in[0], k.in[1], k.in[2]
	if s.Inner == 1 {
		return c.over(len(out)/s.Channels, s.Channels, func(from, to int, _ *worker) {
			for r := from; r < to; r++ {
				y := out[r*s.Channels:][:s.Channels]
				simd.Mul(y, x[r*s.Channels:][:s.Channels], gamma)
				simd.Add(y, y, beta)
			}
		})
	}
	return c.over(len(out)/s.Inner, s.Inner, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			g, b := gamma[r%s.Channels], beta[r%s.Channels]
			y := out[r*s.Inner:][:s.Inner]
			for j, v := range x[r*s.Inner:][:s.Inner] {
				y[j] = v*g + b
			}
		}
	})
}

func (c compiler) channelScale(s op.ChannelScale, k call) func() {
	out, x, gamma := k.out, k.in[0], k.in[1]
	if s.Inner == 1 {
		return c.over(len(out)/s.Channels, s.Channels, func(from, to int, _ *worker) {
			for r := from; r < to; r++ {
				simd.Mul(out[r*s.Channels:][:s.Channels], x[r*s.Channels:][:s.Channels], gamma)
			}
		})
	}
	return c.over(len(out)/s.Inner, s.Inner, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			simd.Scale(out[r*s.Inner:][:s.Inner], x[r*s.Inner:][:s.Inner], gamma[r%s.Channels])
		}
	})
}

func (c compiler) channelShift(s op.ChannelShift, k call) func() {
	out, x, beta := k.out, k.in[0], k.in[1]
	if s.Inner == 1 {
		return c.over(len(out)/s.Channels, s.Channels, func(from, to int, _ *worker) {
			for r := from; r < to; r++ {
				simd.Add(out[r*s.Channels:][:s.Channels], x[r*s.Channels:][:s.Channels], beta)
			}
		})
	}
	return c.over(len(out)/s.Inner, s.Inner, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			b, y := beta[r%s.Channels], out[r*s.Inner:][:s.Inner]
			for j, v := range x[r*s.Inner:][:s.Inner] {
				y[j] = v + b
			}
		}
	})
}

// channelSums makes a step that sums each channel of Δ, or of A⊙Δ where a is
// given, over all rows and inner elements, each row times the factor of its
// record where factors are given. A task owns channels and goes through the rows
// in order, so that the sums do not depend on how channels are shared out.
func (c compiler) channelSums(channels, inner int, k call, a, delta, factors []float32) func() {
	rows := len(delta) / (channels * inner)
	spread, ofRow := c.rowFactors(factors, rows)
	s := channelSum{channels, inner, rows, a, delta, ofRow}
	if a != nil {
		c.reserve(channels, 0)
	}
	out := k.out
	return sequence(spread, c.over(channels, rows*inner, func(from, to int, w *worker) {
		s.run(out[from:to], from, k.accumulate, w)
	}))
}

// channelSum sums channels over rows.
type channelSum struct {
	channels, inner, rows int
	a, delta              []float32
	factors               []float32 // one a row; nil where all are 1
}

// run sums as many channels as dst holds, the first of them first.
func (s *channelSum) run(dst []float32, first int, accumulate bool, w *worker) {
	if s.inner == 1 && s.a == nil {
		simd.ColSums(dst, s.delta[first:], s.channels, s.rows, len(dst), s.factors, accumulate)
		return
	}
	if !accumulate {
		clear(dst)
	}
	for r := range s.rows {
		f := float32(1)
		if s.factors != nil {
			if f = s.factors[r]; f == 0 {
				continue
			}
		}
		at, n := (r*s.channels+first)*s.inner, len(dst)*s.inner
		d := s.delta[at:][:n]
		switch {
		case s.inner == 1:
			both := w.floats(n)
			simd.Mul(both, s.a[at:][:n], d)
			simd.Axpy(dst, both, f)
		case s.a == nil:
			for j := range dst {
				dst[j] += f * float32(simd.Sum(d[j*s.inner:][:s.inner]))
			}
		default:
			a := s.a[at:][:n]
			for j := range dst {
				dst[j] += f * float32(simd.Dot(a[j*s.inner:][:s.inner], d[j*s.inner:][:s.inner]))
			}
		}
	}
}

// rowFactors gives each of the rows the factor of its record, and the step that
// sees to it; the factors themselves where records have one row each.
func (c compiler) rowFactors(factors []float32, rows int) (spread func(), ofRow []float32) {
	if len(factors) == rows || factors == nil {
		return func() {}, factors
	}
	ofRow = make([]float32, rows)
	each := rows / len(factors)
	return func() {
		for t := range ofRow {
			ofRow[t] = factors[t/each]
		}
	}, ofRow
}
