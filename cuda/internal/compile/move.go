//go:build gpu

package compile

import (
	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
	"gorgonia.org/tensor"
)

// lowerLayoutOp queues operations that move elements, and sums along axes.
func lowerLayoutOp(c *compiler, spec op.Operation, k call) bool {
	switch s := spec.(type) {
	case op.Reshape:
		c.queue(c.name, func() error { return c.device.Copy(k.out, k.in[0], 4*k.results()) })
	case op.Permute:
		launchPermute(c, s, k.out, k.in[0], k.shapes[0])
	case op.Repeat:
		_, inner := op.OuterInner(k.shapes[0], s.Axis)
		c.launch("repeat", blocks(k.results()), threads, k.out, k.in[0], int32(k.results()), int32(inner), int32(s.Times))
	case op.Slice:
		launchSlice(c, "slice", s, k.in[0], k.shapes[0], k)
	case op.SliceGrad:
		launchSlice(c, "slice_gradient", s.Slice, k.in[1], k.shapes[0], k)
	case op.Concat:
		outer, _ := op.OuterInner(k.shape, s.Axis)
		launchConcat(c, outer, k)
	case op.SumAxes:
		lowerSumAxes(c, s, k)
	default:
		return false
	}
	return true
}

// stridedAxes are the sizes of axes and their strides in the source, the last axis first.
// It is struct Axes of kernels/move.cu.
type stridedAxes struct {
	Count        int32
	Size, Stride [8]int32
}

func (a *stridedAxes) add(size, stride int) {
	a.Size[a.Count], a.Stride[a.Count] = int32(size), int32(stride)
	a.Count++
}

func launchPermute(c *compiler, s op.Permute, out, from driver.Pointer, shape tensor.Shape) {
	n := shape.TotalSize()
	c.launch("permute", blocks(n), threads, out, from, int32(n), permutedAxes(s, shape))
}

// permutedAxes are the axes of a permutation. It merges axes that stay neighbours into
// one.
func permutedAxes(s op.Permute, in tensor.Shape) (a stridedAxes) {
	stride, order := in.CalcStrides(), s.Order.List()
	for i := len(order) - 1; i >= 0; i-- {
		size, step := in[order[i]], stride[order[i]]
		for i > 0 && order[i-1] == order[i]-1 {
			i--
			size *= in[order[i]]
		}
		a.add(size, step)
	}
	return a
}

func launchSlice(c *compiler, kernel string, s op.Slice, from any, whole tensor.Shape, k call) {
	_, inner := op.OuterInner(whole, s.Axis)
	c.launch(kernel, blocks(k.results()), threads, k.out, from, int32(k.results()), int32(inner),
		int32(whole[s.Axis]), int32(s.From), int32(s.Count), int32(s.Step))
}

// launchConcat divides every input into outer blocks, and writes the first blocks of all
// inputs, then the second blocks, and so on.
func launchConcat(c *compiler, outer int, k call) {
	offset, total := 0, k.results()/outer
	for i, x := range k.in {
		size := k.size(i) / outer
		if size > 0 {
			c.launch("concat", blocks(k.size(i)), threads, k.out, x, int32(k.size(i)), int32(size), int32(offset), int32(total))
		}
		offset += size
	}
}

func lowerSumAxes(c *compiler, s op.SumAxes, k call) {
	var kept, summed stridedAxes
	stride, terms, last := k.shapes[0].CalcStrides(), 1, false
	for i := len(k.shapes[0]) - 1; i >= 0; i-- {
		size := k.shapes[0][i]
		switch {
		case size == 1:
		case s.Over.Has(i):
			last = last || kept.Count == 0
			summed.add(size, stride[i])
			terms *= size
		default:
			kept.add(size, stride[i])
		}
	}
	n := k.results()
	if last {
		c.launch("sum_last", dim{uint32(min(ceil(n, 8), 1<<20)), 1, 1}, threads, k.out, k.in[0], int32(n), int32(terms), kept, summed)
		return
	}
	c.launch("sum_first", dim{uint32(ceil(n, 32)), 1, 1}, threads, k.out, k.in[0], int32(n), int32(terms), kept, summed)
}
