package cpu

import (
	"slices"

	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/plan"
	"github.com/dptrain/dptrain/internal/simd"
)

// clippedSum adds up c_r·g_r over the records. The rows of a record of factor 0
// are not multiplied by it but left out, whatever they hold.
func (c compiler) clippedSum(s op.ClippedSum, k call) func() {
	factors, delta := k.in[len(k.in)-1], k.in[len(k.in)-2]
	switch f := s.Form.(type) {
	case op.Product:
		return c.productSum(f, k, factors)
	case op.ConvWeight:
		return c.convSum(f, k, factors)
	case op.Gather:
		return c.gatherSum(f, k, k.in[0], delta, factors)
	case op.Shift:
		return c.channelSums(f.Channels, f.Inner, k, nil, delta, factors)
	case op.Scale:
		return c.channelSums(f.Channels, f.Inner, k, k.in[0], delta, factors)
	}
	return nil
}

// productSum is Aᵀ·diag(c)·Δ: the product takes a factor for each row, that of
// the record which the row belongs to.
func (c compiler) productSum(f op.Product, k call, factors []float32) func() {
	if c.made(k) {
		return func() {}
	}
	rows := len(k.in[1]) / f.Out
	spread, ofRow := c.rowFactors(factors, rows)
	sum := func(f op.Product, k call, ofRow []float32) simd.Gemm {
		return simd.Gemm{
			TransA: true, M: f.In, N: f.Out, K: rows, LDA: f.In, LDB: f.Out, LDC: f.Out,
			Factors: ofRow, Accumulate: k.accumulate,
		}
	}
	one := sum(f, k, ofRow)
	first := sequence(spread, c.gemm(one, k.out, k.in[0], k.in[1]))
	f2, k2, ok := c.twin(f, k)
	if !ok {
		return first
	}
	spread2, ofRow2 := c.rowFactors(k2.in[2], rows)
	second := sequence(spread2, c.gemm(sum(f2, k2, ofRow2), k2.out, k2.in[0], k2.in[1]))
	twins := simd.Twins{one, sum(f2, k2, ofRow)}
	outs, as := [2][]float32{k.out, k2.out}, [2][]float32{k.in[0], k2.in[0]}
	both := sequence(spread, c.shards((f.In+f2.In)*f.Out*rows/4, func(i, n int, w *worker) {
		twins.Run(&outs, &as, k.in[1], w.gemm, i, n)
	}))
	return func() {
		if slices.Equal(factors, k2.in[2]) {
			both()
			return
		}
		first()
		second()
	}
}

// twin gives a sum that follows k, that of f, of products with the same Δ, if its operand
// is there already and its result has memory of its own; made then tells that it is done.
func (c compiler) twin(of op.Product, k call) (f op.Product, twin call, ok bool) {
	for n, i := range k.next {
		s, is := i.Spec.(op.ClippedSum)
		if !is {
			continue
		}
		f, is = s.Form.(op.Product)
		if !is || f.Out != of.Out || c.base(i.In[1]) != k.bases[1] || c.program.Buffers[c.base(i.Out)].Role == plan.RoleTemporary || c.writers(i.Out) != 1 ||
			slices.ContainsFunc(k.next[:n], func(j plan.Instruction) bool { return c.base(j.Out) == c.base(i.In[0]) }) {
			continue
		}
		twin = c.call(i)
		c.early[twin.base] = true
		return f, twin, true
	}
	return f, twin, false
}

// writers counts the operations that write a buffer.
func (c compiler) writers(id int) (n int) {
	for _, i := range slices.Concat(c.program.Front, c.program.Back) {
		if c.base(i.Out) == c.base(id) {
			n++
		}
	}
	return n
}
