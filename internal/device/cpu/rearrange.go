package cpu

import (
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// lowerLayoutOp makes the step of operations that move elements, and sums over axes.
func lowerLayoutOp(l *lowering, spec op.Operation, k call) func() {
	switch s := spec.(type) {
	case op.Reshape:
		return lowerCopy(l, k)
	case op.Permute:
		return lowerPermute(l, s, k)
	case op.Repeat:
		return lowerRepeat(l, s, k)
	case op.Slice:
		return lowerSlice(l, s, k)
	case op.SliceGrad:
		return lowerSliceGrad(l, s, k)
	case op.Concat:
		return lowerConcat(l, s, k)
	case op.Join:
		return lowerConcat(l, op.Concat{Axis: k.shape.Dims() - 1}, k)
	case op.SumAxes:
		return lowerSumAxes(l, s, k)
	case op.StackRows:
		return lowerConcatBlocks(l, s.Blocks, k)
	}
	return nil
}

func lowerCopy(l *lowering, k call) func() {
	out, x := k.out, k.in[0]
	return l.pool.forRanges(len(out), 1, func(from, to int, _ *worker) { copy(out[from:to], x[from:to]) })
}

// lowerPermute copies runs of elements that stay adjacent.
func lowerPermute(l *lowering, s op.Permute, k call) func() {
	out, x := k.out, k.in[0]
	order := s.Order.List()
	run, outer := 1, s.Order.N
	for outer > 0 && order[outer-1] == outer-1 {
		outer--
		run *= k.shapes[0][outer]
	}
	if outer == 0 {
		return lowerCopy(l, k)
	}
	at := make([]int32, len(out)/run)
	for i, from := range s.Index(k.shapes[0]) {
		if i%run == 0 {
			at[i/run] = from
		}
	}
	return l.pool.forRanges(len(at), run+3, func(from, to int, _ *worker) {
		if run == 1 {
			for i := from; i < to; i++ {
				out[i] = x[at[i]]
			}
			return
		}
		for i := from; i < to; i++ {
			copy(out[i*run:(i+1)*run], x[at[i]:])
		}
	})
}

func lowerRepeat(l *lowering, s op.Repeat, k call) func() {
	out, x := k.out, k.in[0]
	_, inner := op.OuterInner(k.shapes[0], s.Axis)
	return l.pool.forRanges(len(out)/inner, inner+3, func(from, to int, _ *worker) {
		for i := from; i < to; i++ {
			copy(out[i*inner:(i+1)*inner], x[i/s.Times*inner:])
		}
	})
}

// sliceRuns is a slice of a row: runs of adjacent numbers, all of the same length.
type sliceRuns struct{ count, length, first, stride int }

func newSliceRuns(s op.Slice, inner int) sliceRuns {
	if s.Step == 1 {
		return sliceRuns{1, s.Count * inner, s.From * inner, 0}
	}
	return sliceRuns{s.Count, inner, s.From * inner, s.Step * inner}
}

func lowerSlice(l *lowering, s op.Slice, k call) func() {
	out, x := k.out, k.in[0]
	_, inner := op.OuterInner(k.shapes[0], s.Axis)
	row, run := k.shapes[0][s.Axis]*inner, newSliceRuns(s, inner)
	return l.pool.forRanges(len(out)/run.length, run.length+3, func(from, to int, _ *worker) {
		for i := from; i < to; i++ {
			copy(out[i*run.length:(i+1)*run.length], x[i/run.count*row+run.first+i%run.count*run.stride:])
		}
	})
}

func lowerSliceGrad(l *lowering, s op.SliceGrad, k call) func() {
	out, d := k.out, k.in[1]
	_, inner := op.OuterInner(k.shapes[0], s.Slice.Axis)
	row, run := k.shapes[0][s.Slice.Axis]*inner, newSliceRuns(s.Slice, inner)
	return l.pool.forRanges(len(out)/row, row, func(from, to int, _ *worker) {
		for o := from; o < to; o++ {
			y := out[o*row : (o+1)*row]
			clear(y)
			for i := range run.count {
				copy(y[run.first+i*run.stride:][:run.length], d[(o*run.count+i)*run.length:])
			}
		}
	})
}

// lowerConcatBlocks cuts every input into outer blocks. It concatenates the first blocks
// of all inputs, then the second blocks, and so on.
func lowerConcatBlocks(l *lowering, outer int, k call) func() {
	sizes, total := make([]int, len(k.in)), 0
	for i, x := range k.in {
		sizes[i] = len(x) / outer
		total += sizes[i]
	}
	out, in := k.out, k.in
	return l.pool.forRanges(outer, total, func(from, to int, _ *worker) {
		for o := from; o < to; o++ {
			at := o * total
			for i, x := range in {
				at += copy(out[at:], x[o*sizes[i]:(o+1)*sizes[i]])
			}
		}
	})
}

func lowerConcat(l *lowering, s op.Concat, k call) func() {
	outer, _ := op.OuterInner(k.shape, s.Axis)
	return lowerConcatBlocks(l, outer, k)
}

// lowerSumAxes merges adjacent axes of which all or none are summed over. Summed and kept
// axes then alternate.
func lowerSumAxes(l *lowering, s op.SumAxes, k call) func() {
	var sizes []int
	var over []bool
	for axis, n := range k.shapes[0] {
		o := s.Over.Has(axis)
		if last := len(sizes) - 1; last >= 0 && (over[last] == o || n == 1) {
			sizes[last] *= n
			continue
		}
		sizes, over = append(sizes, n), append(over, o)
	}
	if len(sizes) == 0 {
		return lowerCopy(l, k)
	}
	return lowerSumRuns(l, sizes, over, k)
}

// lowerSumRuns sums over axes of which every second one is summed over.
func lowerSumRuns(l *lowering, sizes []int, over []bool, k call) func() {
	// The kept and the summed axes with their strides, the innermost axis first.
	type axis struct{ size, stride int }
	var kept, summed []axis
	stride := 1
	for i := len(sizes) - 1; i >= 0; i-- {
		if over[i] {
			summed = append(summed, axis{sizes[i], stride})
		} else {
			kept = append(kept, axis{sizes[i], stride})
		}
		stride *= sizes[i]
	}
	terms := 1
	for _, a := range summed {
		terms *= a.size
	}
	offset := func(i int, axes []axis) (at int) {
		for _, a := range axes {
			at += i % a.size * a.stride
			i /= a.size
		}
		return at
	}
	out, x := k.out, k.in[0]
	if over[len(over)-1] || len(kept) == 0 {
		run := summed[0].size
		return l.pool.forRanges(len(out), terms, func(from, to int, _ *worker) {
			for i := from; i < to; i++ {
				at := offset(i, kept)
				var s float64
				for j := range terms / run {
					s += simd.Sum(x[at+offset(j, summed[1:]):][:run])
				}
				out[i] = float32(s)
			}
		})
	}
	run := kept[0].size
	const block = 64
	blocks := (run + block - 1) / block
	l.pool.reserve(0, block)
	return l.pool.forRanges(len(out)/run*blocks, terms*min(run, block), func(from, to int, w *worker) {
		for i := from; i < to; i++ {
			first := i % blocks * block
			width := min(block, run-first)
			at := offset(i/blocks, kept[1:]) + first
			s := w.doubles(width)
			clear(s)
			for j := range terms {
				for e, v := range x[at+offset(j, summed):][:width] {
					s[e] += float64(v)
				}
			}
			for e, v := range s {
				out[i/blocks*run+first+e] = float32(v)
			}
		}
	})
}
