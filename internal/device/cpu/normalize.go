package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// lowerChannelOp makes the step of operations that treat all channels or all rows alike: normalisations,
// scales and shifts, their sums, softmax.
func lowerChannelOp(l *lowering, spec op.Operation, k call) func() {
	switch s := spec.(type) {
	case op.Normalize:
		return lowerNormalize(l, s, k)
	case op.NormalizeGrad:
		return lowerNormalizeGrad(l, s, k)
	case op.ScaleShift:
		return lowerScaleShift(l, s, k)
	case op.ChannelScale:
		return lowerChannelScale(l, s, k)
	case op.ChannelShift:
		return lowerChannelShift(l, s, k)
	case op.ChannelSum:
		return lowerChannelSums(l, k, channelSum{channels: s.Channels, inner: s.Inner, delta: k.in[0]}, nil)
	case op.ChannelDot:
		return lowerChannelSums(l, k, channelSum{channels: s.Channels, inner: s.Inner, a: k.in[0], delta: k.in[1]}, nil)
	case op.Softmax:
		return lowerSoftmax(l, s, k)
	case op.SoftmaxGrad:
		return lowerSoftmaxGrad(l, s, k)
	}
	return nil
}

// chunkStatistics returns the mean of a chunk, 0 if the operation does not centre it, and
// the reciprocal of its standard deviation, both in float64.
func chunkStatistics(n op.Normalize, x []float32) (mean, scale float64) {
	size := float64(len(x))
	if n.Center {
		mean = simd.Sum(x) / size
	}
	return mean, 1 / math.Sqrt(simd.SumSquaredDeviations(x, mean)/size+n.Eps)
}

func lowerNormalize(l *lowering, s op.Normalize, k call) func() {
	out, in, n := k.out, k.in[0], s.Chunk
	return l.pool.forRanges(len(out)/n, n+32, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			x, y := in[r*n:(r+1)*n], out[r*n:(r+1)*n]
			mean, scale := chunkStatistics(s, x)
			// The kernel computes (x − μ)·scale: x·scale − μ·scale would cancel.
			simd.Normalize(y, x, mean, scale)
		}
	})
}

// lowerNormalizeGrad computes (dx̂ − mean(dx̂) − x̂·mean(dx̂·x̂))/√(σ²+Eps).
func lowerNormalizeGrad(l *lowering, s op.NormalizeGrad, k call) func() {
	out, in, delta, n := k.out, k.in[0], k.in[1], s.Chunk
	return l.pool.forRanges(len(out)/n, 2*n+32, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			x, d, y := in[r*n:(r+1)*n], delta[r*n:(r+1)*n], out[r*n:(r+1)*n]
			mean, scale := chunkStatistics(op.Normalize(s), x)
			var total float64
			if s.Center {
				total = simd.Sum(d)
			}
			along := (simd.Dot(x, d) - mean*simd.Sum(d)) * scale
			shift, slope := float32(total/float64(n)), float32(along*scale/float64(n))
			simd.NormalizeGrad(y, x, d, float32(mean), slope, shift, float32(scale))
		}
	})
}

// The operations on channels below see a tensor as [rows, channels, inner].

func lowerScaleShift(l *lowering, s op.ScaleShift, k call) func() {
	out, x, gamma, beta := k.out, k.in[0], k.in[1], k.in[2]
	if s.Inner == 1 {
		return l.pool.forRanges(len(out)/s.Channels, s.Channels, func(from, to int, _ *worker) {
			for r := from; r < to; r++ {
				y := out[r*s.Channels:][:s.Channels]
				simd.Mul(y, x[r*s.Channels:][:s.Channels], gamma)
				simd.Add(y, y, beta)
			}
		})
	}
	return l.pool.forRanges(len(out)/s.Inner, s.Inner, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			g, b := gamma[r%s.Channels], beta[r%s.Channels]
			y := out[r*s.Inner:][:s.Inner]
			for j, v := range x[r*s.Inner:][:s.Inner] {
				y[j] = v*g + b
			}
		}
	})
}

func lowerChannelScale(l *lowering, s op.ChannelScale, k call) func() {
	out, x, gamma := k.out, k.in[0], k.in[1]
	if s.Inner == 1 {
		return l.pool.forRanges(len(out)/s.Channels, s.Channels, func(from, to int, _ *worker) {
			for r := from; r < to; r++ {
				simd.Mul(out[r*s.Channels:][:s.Channels], x[r*s.Channels:][:s.Channels], gamma)
			}
		})
	}
	return l.pool.forRanges(len(out)/s.Inner, s.Inner, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			simd.Scale(out[r*s.Inner:][:s.Inner], x[r*s.Inner:][:s.Inner], gamma[r%s.Channels])
		}
	})
}

func lowerChannelShift(l *lowering, s op.ChannelShift, k call) func() {
	out, x, beta := k.out, k.in[0], k.in[1]
	if s.Inner == 1 {
		return l.pool.forRanges(len(out)/s.Channels, s.Channels, func(from, to int, _ *worker) {
			for r := from; r < to; r++ {
				simd.Add(out[r*s.Channels:][:s.Channels], x[r*s.Channels:][:s.Channels], beta)
			}
		})
	}
	return l.pool.forRanges(len(out)/s.Inner, s.Inner, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			b, y := beta[r%s.Channels], out[r*s.Inner:][:s.Inner]
			for j, v := range x[r*s.Inner:][:s.Inner] {
				y[j] = v + b
			}
		}
	})
}

// lowerChannelSums sums each channel of Δ, or of A⊙Δ if A is not nil, over all rows and
// inner elements. If factors is not nil, each row is multiplied by the factor of its
// record. A task computes some channels and reads the rows in order, so that sums do not
// depend on how channels are divided among tasks.
func lowerChannelSums(l *lowering, k call, s channelSum, factors []float32) func() {
	s.rows = len(s.delta) / (s.channels * s.inner)
	var expand func()
	expand, s.factors = expandFactors(factors, s.rows)
	if s.a != nil {
		l.pool.reserve(s.channels, 0)
	}
	out := k.out
	return sequence(expand, l.pool.forRanges(s.channels, s.rows*s.inner, func(from, to int, w *worker) {
		s.run(out[from:to], from, k.accumulate, w)
	}))
}

// channelSum sums channels over rows, see lowerChannelSums.
type channelSum struct {
	channels, inner, rows int
	a, delta              []float32
	factors               []float32 // one per row; nil if all are 1
}

// run computes the sums of len(dst) channels, from channel first on.
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
			product := w.floats(n)
			simd.Mul(product, s.a[at:][:n], d)
			simd.Axpy(dst, product, f)
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
