package cpu

import (
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// planeWindow returns a window over single planes, and the floats of a plane and of its
// result.
func planeWindow(w op.Window, height, width int) (win *simd.Window, plane, area int) {
	p := simdWindow(w, 1, height, width)
	oh, ow := p.OutputSize()
	return &p, height * width, oh * ow
}

// poolKey identifies the maxima of a buffer, so that the gradient finds the cells that they
// come from.
type poolKey struct {
	buffer        int
	window        op.Window
	height, width int
}

// channelPool returns a pool over pictures with their channels last.
func channelPool(w op.Window, shape []int) *simd.ChannelPool {
	return simdWindow(w, shape[1], shape[2], shape[3]).ChannelPool()
}

// lowerMaxPoolChannelsLast is lowerMaxPool for pictures with their channels last.
func lowerMaxPoolChannelsLast(l *lowering, s op.MaxPool2D, k call) func() {
	shape := k.shapes[0]
	p, channels := channelPool(s.Window, shape), shape[1]
	out, x := k.out, k.in[0]
	size, n := len(x)/shape[0], len(out)/shape[0]
	at, _ := saveFor(l.saved.maxTaps, poolKey{k.bases[0], s.Window, shape[2], shape[3]}, len(out))
	l.pool.reserve(n, 0)
	return l.pool.forRanges(shape[0], n*(s.KernelH*s.KernelW+2)/4, func(from, to int, w *worker) {
		for r := from; r < to; r++ {
			y, at, x := out[r*n:(r+1)*n], at[r*n:(r+1)*n], x[r*size:(r+1)*size]
			if k.outChannelsLast {
				p.Max(y, at, x)
				continue
			}
			last := w.floats(n)
			p.Max(last, at, x)
			simd.Transpose(y, n/channels, last, channels, n/channels, channels)
		}
	})
}

// lowerMaxPoolGradChannelsLast is lowerMaxPoolGrad for pictures with their channels last.
func lowerMaxPoolGradChannelsLast(l *lowering, s op.MaxPoolGrad, k call) func() {
	shape := k.shapes[0]
	p, channels := channelPool(s.Window, shape), shape[1]
	out, x, delta := k.out, k.in[0], k.in[1]
	size, n := len(x)/shape[0], len(delta)/shape[0]
	at, saved := saveFor(l.saved.maxTaps, poolKey{k.bases[0], s.Window, shape[2], shape[3]}, len(delta))
	l.pool.reserve(n+size, 0)
	return l.pool.forRanges(shape[0], n*(s.KernelH*s.KernelW+2)/4, func(from, to int, w *worker) {
		for r := from; r < to; r++ {
			y, at, d := out[r*size:(r+1)*size], at[r*n:(r+1)*n], delta[r*n:(r+1)*n]
			memory := w.floats(n + size)
			last, image := memory[:n], memory[n:]
			if !saved {
				p.Max(last, at, x[r*size:(r+1)*size])
			}
			if !k.inChannelsLast[1] {
				simd.Transpose(last, channels, d, n/channels, channels, n/channels)
				d = last
			}
			if k.outChannelsLast {
				p.Grad(y, d, at)
				continue
			}
			p.Grad(image, d, at)
			simd.Transpose(y, size/channels, image, channels, size/channels, channels)
		}
	})
}

func lowerMaxPool(l *lowering, s op.MaxPool2D, k call) func() {
	if k.inChannelsLast[0] {
		return lowerMaxPoolChannelsLast(l, s, k)
	}
	p, plane, area := planeWindow(s.Window, k.shapes[0][2], k.shapes[0][3])
	out, x := k.out, k.in[0]
	at, _ := saveFor(l.saved.maxCells, poolKey{k.bases[0], s.Window, k.shapes[0][2], k.shapes[0][3]}, len(out))
	return l.pool.forRanges(len(out)/area, area*(s.KernelH*s.KernelW+2)/2, func(from, to int, _ *worker) {
		for n := from; n < to; n++ {
			p.MaxPool(out[n*area:(n+1)*area], at[n*area:(n+1)*area], x[n*plane:(n+1)*plane])
		}
	})
}

func lowerMaxPoolGrad(l *lowering, s op.MaxPoolGrad, k call) func() {
	if k.inChannelsLast[0] {
		return lowerMaxPoolGradChannelsLast(l, s, k)
	}
	p, plane, area := planeWindow(s.Window, k.shapes[0][2], k.shapes[0][3])
	out, x, delta := k.out, k.in[0], k.in[1]
	at, saved := saveFor(l.saved.maxCells, poolKey{k.bases[0], s.Window, k.shapes[0][2], k.shapes[0][3]}, len(delta))
	l.pool.reserve(area, 0)
	return l.pool.forRanges(len(delta)/area, area+plane, func(from, to int, w *worker) {
		for n := from; n < to; n++ {
			at := at[n*area : (n+1)*area]
			if !saved {
				p.MaxPool(w.floats(area), at, x[n*plane:(n+1)*plane])
			}
			simd.MaxPoolGrad(out[n*plane:(n+1)*plane], delta[n*area:(n+1)*area], at)
		}
	})
}

// averagesColumns reports whether a window is as high as the picture and one column wide:
// the mean over an axis, as in a bag of embeddings.
func averagesColumns(w op.Window, height int) bool {
	return w.KernelH == height && w.KernelW == 1 && w.PadH == 0 && w.PadW == 0 && w.StrideW == 1 && w.DilationH == 1
}

// coversPicture reports whether there is one window, the whole picture.
func coversPicture(w op.Window, height, width int) bool {
	return w.KernelH == height && w.KernelW == width && w.PadH == 0 && w.PadW == 0 && w.DilationH == 1 && w.DilationW == 1
}

func lowerAvgPool(l *lowering, s op.AvgPool2D, k call) func() {
	height, width := k.shapes[0][2], k.shapes[0][3]
	p, plane, area := planeWindow(s.Window, height, width)
	out, x := k.out, k.in[0]
	if coversPicture(s.Window, height, width) {
		return l.pool.forRanges(len(out), plane, func(from, to int, _ *worker) {
			for n := from; n < to; n++ {
				out[n] = float32(simd.Sum(x[n*plane:(n+1)*plane]) / float64(plane))
			}
		})
	}
	columns := averagesColumns(s.Window, height)
	return l.pool.forRanges(len(out)/area, plane, func(from, to int, _ *worker) {
		for n := from; n < to; n++ {
			y, x := out[n*area:(n+1)*area], x[n*plane:(n+1)*plane]
			if columns {
				simd.ColSums(y, x, width, height, width, nil, false)
				simd.Scale(y, y, 1/float32(height))
			} else {
				p.AvgPool(y, x)
			}
		}
	})
}

func lowerAvgPoolGrad(l *lowering, s op.AvgPoolGrad, k call) func() {
	p, plane, area := planeWindow(s.Window, s.H, s.W)
	out, delta := k.out, k.in[0]
	if coversPicture(s.Window, s.H, s.W) {
		return l.pool.forRanges(len(delta), plane, func(from, to int, _ *worker) {
			for n := from; n < to; n++ {
				share := delta[n] / float32(plane)
				for i := range out[n*plane : (n+1)*plane] {
					out[n*plane+i] = share
				}
			}
		})
	}
	columns := averagesColumns(s.Window, s.H)
	return l.pool.forRanges(len(delta)/area, plane, func(from, to int, _ *worker) {
		for n := from; n < to; n++ {
			x, y := out[n*plane:(n+1)*plane], delta[n*area:(n+1)*area]
			if !columns {
				p.AvgPoolGrad(x, y)
				continue
			}
			simd.Scale(x[:area], y, 1/float32(s.H))
			for at := area; at < plane; at *= 2 {
				copy(x[at:], x[:at])
			}
		}
	})
}
