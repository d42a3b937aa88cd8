package cpu

import (
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// lowerProductOp makes the step of products of matrices, and the clipped sums of gradients.
func lowerProductOp(l *lowering, spec op.Operation, k call) func() {
	switch s := spec.(type) {
	case op.ClippedSum:
		return lowerClippedSum(l, s, k)
	case op.MatMul:
		return lowerMatMul(l, s, k)
	case op.MatVec:
		return lowerMatVec(l, s, k)
	case op.Dot:
		return func() { k.out[0] = float32(simd.Dot(k.in[0], k.in[1])) }
	case op.Linear:
		return lowerLinear(l, s, k)
	}
	return nil
}

// lowerGemm makes the step of a matrix product that all threads share. The bits of a
// product do not depend on how it is shared.
func lowerGemm(l *lowering, g simd.Gemm, out, a, b []float32) func() {
	return l.pool.forShards(g.M*g.N*g.K/4, func(i, n int, w *worker) { g.Run(out, a, b, w.gemm, i, n) })
}

// lowerWeightGemm makes the step of a product with input 1 of an instruction, whose numbers may have 16 bits.
func lowerWeightGemm(l *lowering, g simd.Gemm, out, a []float32, k call) func() {
	b := k.halves[1]
	if b.Bits == nil {
		return lowerGemm(l, g, out, a, k.in[1])
	}
	return l.pool.forShards(g.M*g.N*g.K/4, func(i, n int, w *worker) { g.RunHalf(out, a, b, w.gemm, i, n) })
}

func lowerMatMul(l *lowering, s op.MatMul, k call) func() {
	m, n, d, _ := s.Sizes(k.shapes[0], k.shapes[1])
	g := simd.Gemm{TransA: s.TransA, TransB: s.TransB, M: m, N: n, K: d, LDA: d, LDB: n, LDC: n}
	if s.TransA {
		g.LDA = m
	}
	if s.TransB {
		g.LDB = d
	}
	return lowerWeightGemm(l, g, k.out, k.in[0], k)
}

func lowerLinear(l *lowering, s op.Linear, k call) func() {
	m, n, d, _ := op.MatMul{}.Sizes(k.shapes[0], k.shapes[1])
	g := simd.Gemm{M: m, N: n, K: d, LDA: d, LDB: n, LDC: n, ColBias: k.in[2], ReLU: s.Act == op.ReLU}
	product := lowerWeightGemm(l, g, k.out, k.in[0], k)
	if s.Act == op.Identity || s.Act == op.ReLU {
		return product
	}
	return sequence(product, lowerActivation(l, s.Act, k.out, k.out))
}

func lowerMatVec(l *lowering, s op.MatVec, k call) func() {
	product, shapes := s.Product(k.shapes)
	k.shapes = shapes
	return lowerMatMul(l, product, k)
}

// lowerClippedSum adds c_r·g_r over the records. A record of factor 0 is left out, not
// multiplied by 0, so that NaN and infinities in its rows do not reach the sum.
func lowerClippedSum(l *lowering, s op.ClippedSum, k call) func() {
	factors, delta := k.in[len(k.in)-1], k.in[len(k.in)-2]
	switch f := s.Form.(type) {
	case op.Product:
		return lowerProductSum(l, f, k, factors)
	case op.ConvWeight:
		return lowerConvSum(l, f, k, factors)
	case op.Gather:
		return lowerGatherSum(l, f, k, k.in[0], delta, factors)
	case op.Shift:
		return lowerChannelSums(l, k, channelSum{channels: f.Channels, inner: f.Inner, delta: delta}, factors)
	case op.Scale:
		return lowerChannelSums(l, k, channelSum{channels: f.Channels, inner: f.Inner, a: k.in[0], delta: delta}, factors)
	}
	return nil
}

// lowerProductSum computes Aᵀ·diag(c)·Δ. The product takes one factor per row, the factor
// of the row's record. Two sums with the same Δ run as one step while their factors are
// equal, which packs Δ once.
func lowerProductSum(l *lowering, f op.Product, k call, factors []float32) func() {
	if l.computedEarly[k.base] {
		return func() {}
	}
	rows := len(k.in[1]) / f.Out
	expand, ofRow := expandFactors(factors, rows)
	sum := func(f op.Product, k call, ofRow []float32) simd.Gemm {
		return simd.Gemm{
			TransA: true, M: f.In, N: f.Out, K: rows, LDA: f.In, LDB: f.Out, LDC: f.Out,
			Factors: ofRow, Accumulate: k.accumulate,
		}
	}
	one := sum(f, k, ofRow)
	first := sequence(expand, lowerGemm(l, one, k.out, k.in[0], k.in[1]))
	f2, k2, ok := findPairedSum(l, f, k)
	if !ok {
		return first
	}
	expand2, ofRow2 := expandFactors(k2.in[2], rows)
	second := sequence(expand2, lowerGemm(l, sum(f2, k2, ofRow2), k2.out, k2.in[0], k2.in[1]))
	pair := simd.GemmPair{one, sum(f2, k2, ofRow)}
	outs, as := [2][]float32{k.out, k2.out}, [2][]float32{k.in[0], k2.in[0]}
	both := sequence(expand, l.pool.forShards((f.In+f2.In)*f.Out*rows/4, func(i, n int, w *worker) {
		pair.Run(&outs, &as, k.in[1], w.gemm, i, n)
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

// findPairedSum returns a clipped sum that follows k, the sum of form of, and reads the
// same Δ. Its other operand is complete before k, and no other operation writes its
// result. The result is marked as computed early.
func findPairedSum(l *lowering, of op.Product, k call) (f op.Product, pair call, ok bool) {
	for n, i := range k.next {
		s, is := i.Spec.(op.ClippedSum)
		if !is {
			continue
		}
		f, is = s.Form.(op.Product)
		if !is || f.Out != of.Out || l.base(i.In[1]) != k.bases[1] ||
			l.program.Buffers[l.base(i.Out)].Role == plan.RoleTemporary || countWriters(l, i.Out) != 1 ||
			slices.ContainsFunc(k.next[:n], func(j plan.Instruction) bool { return l.base(j.Out) == l.base(i.In[0]) }) {
			continue
		}
		pair = l.call(i)
		l.computedEarly[pair.base] = true
		return f, pair, true
	}
	return f, pair, false
}

// countWriters counts the instructions that write a buffer.
func countWriters(l *lowering, id int) (n int) {
	for _, i := range slices.Concat(l.program.Front, l.program.Back) {
		if l.base(i.Out) == l.base(id) {
			n++
		}
	}
	return n
}

// expandFactors returns the factor of each row's record and the step that fills them.
// Where records have one row each, it returns the factors themselves.
func expandFactors(factors []float32, rows int) (expand func(), ofRow []float32) {
	if len(factors) == rows || factors == nil {
		return func() {}, factors
	}
	ofRow = make([]float32, rows)
	rowsPerRecord := rows / len(factors)
	return func() {
		for t := range ofRow {
			ofRow[t] = factors[t/rowsPerRecord]
		}
	}, ofRow
}
