package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// heads is the geometry of attention. One head of one example is one task. Queries, keys
// and values of a step are adjacent, in packed floats per step.
type heads struct {
	op.Attention
	steps, packed, width, size int
	scale                      float32
	query, key                 simd.Gemm // query·keyᵀ, and weights·key
}

func newHeads(a op.Attention, steps, packed int) *heads {
	width := packed / 3
	h := &heads{Attention: a, steps: steps, packed: packed, width: width, size: width / a.Heads}
	h.scale = float32(a.ScaleOf(h.size))
	h.query = simd.Gemm{TransB: true, M: steps, N: steps, K: h.size, LDA: packed, LDB: packed, LDC: steps}
	h.key = simd.Gemm{M: steps, N: h.size, K: steps, LDA: steps, LDB: packed, LDC: packed}
	return h
}

// cost returns the work of one head in elementary operations.
func (h *heads) cost() int { return h.steps * h.steps * (h.size/4 + 4) }

// at returns the example of a task, and the offsets of its head in packed memory and in
// the result.
func (h *heads) at(task int) (example, packed, result int) {
	example, head := task/h.Heads, task%h.Heads
	return example, example*h.steps*h.packed + head*h.size, example*h.steps*h.width + head*h.size
}

// weights writes the attention weights, [steps, steps]. Masked steps get weight 0; a row
// in which all steps are masked is 0. If scores are capped, it writes their hyperbolic tangents to tangents, unless that
// is nil. mask is memory for a number of each step.
func (h *heads) weights(dst, tangents, mask, x, padding []float32, w *worker) {
	for t, p := range padding {
		mask[t] = 0
		if p < 0 {
			mask[t] = float32(math.Inf(-1))
		}
	}
	h.query.Run(dst, x, x[h.width:], w.gemm, 0, 1)
	simd.Scale(dst, dst, h.scale)
	if h.Cap > 0 {
		if tangents == nil {
			tangents = dst
		}
		simd.Scale(dst, dst, float32(1/h.Cap))
		simd.Tanh(tangents, dst)
		simd.Scale(dst, tangents, float32(h.Cap))
	}
	begin, end := 0, h.steps
	for t := range h.steps {
		row := dst[t*h.steps:][:h.steps]
		if h.Blocks && (t == 0 || padding[t] > 0) {
			begin, end = t, op.EndOfBlock(padding, t)
		}
		from, to := h.seen(t)
		from, to = max(from, begin), min(to, end)
		clear(row[:from])
		clear(row[to:])
		row = row[from:to]
		if padding != nil {
			simd.Add(row, row, mask[from:to])
		}
		simd.Softmax(row, row)
	}
}

// seen returns the range of steps that step t sees, without regard to padding and blocks.
func (h *heads) seen(t int) (from, to int) {
	if h.Causal {
		return h.FirstSeen(t), t + 1
	}
	return 0, h.steps
}

// padding returns the part of the padding mask for an example, nil if there is no mask.
func (h *heads) padding(in [][]float32, example int) []float32 {
	if len(in) == 0 {
		return nil
	}
	return in[0][example*h.steps:][:h.steps]
}

// attentionKey identifies the weights of an attention by the buffers that it reads and
// by its geometry.
type attentionKey struct {
	op.Attention
	packed, padding int
	steps, width    int
}

// saveKey returns the key of an attention whose input number in, if present, is the padding
// mask.
func (h *heads) saveKey(k call, in int) attentionKey {
	if len(k.bases) > in {
		return attentionKey{h.Attention, k.bases[0], k.bases[in], h.steps, h.width}
	}
	return attentionKey{h.Attention, k.bases[0], -1, h.steps, h.width}
}

func lowerAttention(l *lowering, s op.Attention, k call) func() {
	x := k.shapes[0]
	h := newHeads(s, x[1], x[2])
	out, in, padding := k.out, k.in[0], k.in[1:]
	product := h.key
	product.LDC = h.width
	square := h.steps * h.steps
	var saved []float32
	// The gradient needs the weights too. They are saved if they are not larger than the
	// input, and if the gradient does not need the scores as well.
	if trains(l.program) && h.steps <= 3*h.size && h.Cap == 0 {
		saved = make([]float32, x[0]*s.Heads*square)
		l.saved.attention[h.saveKey(k, 1)] = saved
	}
	l.pool.reserve(square+h.steps, 0)
	return l.pool.forRanges(x[0]*s.Heads, h.cost(), func(from, to int, w *worker) {
		for task := from; task < to; task++ {
			example, at, y := h.at(task)
			memory := w.floats(square + h.steps)
			weights, mask := memory[:square], memory[square:]
			if saved != nil {
				weights = saved[task*square:][:square]
			}
			h.weights(weights, nil, mask, in[at:], h.padding(padding, example), w)
			product.Run(out[y:], weights, in[at+2*h.width:], w.gemm, 0, 1)
		}
	})
}

// lowerAttentionGrad computes, with weights P and the gradient dO of the result,
// dV = PᵀdO, dP = dO·Vᵀ, dS = P⊙(dP − rowsum(P⊙dP)), dQ = dS·K and dK = dSᵀ·Q, the last
// two scaled. If scores are capped, dS has the factor 1 − tanh².
func lowerAttentionGrad(l *lowering, s op.AttentionGrad, k call) func() {
	x := k.shapes[0]
	h := newHeads(op.Attention(s), x[1], x[2])
	out, in, grad, padding := k.out, k.in[0], k.in[1], k.in[2:]
	square := h.steps * h.steps
	slopes := h.query
	slopes.LDA = h.width
	transposed := h.key
	transposed.TransA = true
	values := transposed
	values.LDB = h.width
	saved := l.saved.attention[h.saveKey(k, 2)]
	memorySize := 2*square + h.steps
	if h.Cap > 0 {
		memorySize += square
	}
	l.pool.reserve(memorySize, 0)
	return l.pool.forRanges(x[0]*s.Heads, 3*h.cost(), func(from, to int, w *worker) {
		for task := from; task < to; task++ {
			example, at, y := h.at(task)
			memory := w.floats(memorySize)
			weights, ds, mask, tangents := memory[:square], memory[square:2*square], memory[2*square:][:h.steps], memory[2*square+h.steps:]
			x, d := in[at:], out[at:]
			if saved != nil {
				weights = saved[task*square:][:square]
			} else {
				h.weights(weights, tangents, mask, x, h.padding(padding, example), w)
			}
			values.Run(d[2*h.width:], weights, grad[y:], w.gemm, 0, 1)
			slopes.Run(ds, grad[y:], x[2*h.width:], w.gemm, 0, 1)
			for t := range h.steps {
				p, row := weights[t*h.steps:][:h.steps], ds[t*h.steps:][:h.steps]
				from, to := h.seen(t)
				clear(row[:from])
				clear(row[to:])
				simd.SoftmaxGrad(row[from:to], p[from:to], row[from:to], h.scale)
			}
			if h.Cap > 0 {
				simd.TanhGrad(ds, ds, tangents)
			}
			h.key.Run(d, ds, x[h.width:], w.gemm, 0, 1)
			transposed.Run(d[h.width:], ds, x, w.gemm, 0, 1)
		}
	})
}

// lowerRotary rotates pairs of columns by angles that are computed once.
func lowerRotary(l *lowering, s op.Rotary, k call) func() {
	steps, width, half := k.shape[1], k.shape[2], s.HeadDim/2
	cos, sin := op.RotaryAngles[float32](s, steps)
	out, in := k.out, k.in[0]
	return l.pool.forRanges(k.shape[0]*steps, 2*width, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			x, y := in[r*width:][:width], out[r*width:][:width]
			cs, sn := cos[r%steps*half:][:half], sin[r%steps*half:][:half]
			for head := 0; head < s.RotaryDims; head += s.HeadDim {
				x1, x2 := x[head:][:half], x[head+half:][:half]
				y1, y2 := y[head:][:half], y[head+half:][:half]
				for j, a := range x1 {
					b := x2[j]
					y1[j], y2[j] = a*cs[j]-b*sn[j], a*sn[j]+b*cs[j]
				}
			}
			copy(y[s.RotaryDims:], x[s.RotaryDims:])
		}
	})
}

func lowerRepeatHeads(l *lowering, s op.RepeatHeads, k call) func() {
	out, in := k.out, k.in[0]
	return l.pool.forRanges(len(out)/s.Size, s.Size+3, func(from, to int, _ *worker) {
		for i := from; i < to; i++ {
			copy(out[i*s.Size:(i+1)*s.Size], in[i/s.Times*s.Size:])
		}
	})
}

func lowerSumHeads(l *lowering, s op.SumHeads, k call) func() {
	out, in := k.out, k.in[0]
	return l.pool.forRanges(len(out)/s.Size, s.Size*s.Times, func(from, to int, _ *worker) {
		for i := from; i < to; i++ {
			y := out[i*s.Size : (i+1)*s.Size]
			copy(y, in[i*s.Times*s.Size:])
			for c := 1; c < s.Times; c++ {
				for j, v := range in[(i*s.Times+c)*s.Size:][:s.Size] {
					y[j] += v
				}
			}
		}
	})
}
