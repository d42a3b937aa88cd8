//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/internal/op"
	"gorgonia.org/tensor"
)

// lowerProductOp queues what is a product of matrices.
func (c *compiler) lowerProductOp(spec op.Spec, k call) bool {
	switch s := spec.(type) {
	case op.MatMul:
		c.launchProduct(newMatrixProduct(s, k.shapes, k))
	case op.MatVec:
		matrices, shapes := s.Product(k.shapes)
		c.launchProduct(newMatrixProduct(matrices, shapes, k))
	case op.Linear:
		p := newMatrixProduct(op.MatMul{}, k.shapes, k)
		p.bias, p.act = k.in[2], s.Act
		c.launchProduct(p)
	case op.Dot:
		c.lowerDot(k)
	default:
		return false
	}
	return true
}

// newMatrixProduct is the product of the first two operands, matrices of the given shapes.
func newMatrixProduct(s op.MatMul, shapes []tensor.Shape, k call) matrixProduct {
	m, n, d, _ := s.Sizes(shapes[0], shapes[1])
	return matrixProduct{a: k.in[0], b: k.in[1], out: k.out, transA: s.TransA, transB: s.TransB, rows: m, columns: n, depth: d}
}

// lowerDot adds up in float64: parts, then the parts.
func (c *compiler) lowerDot(k call) {
	n := k.size(0)
	parts := min(ceil(n, 4096), 256)
	partial := c.scratch(8 * parts)
	c.launch("dot_parts", dim{uint32(parts), 1, 1}, threads, partial, k.in[0], k.in[1], int32(n))
	c.launch("dot", dim{1, 1, 1}, threads, k.out, partial, int32(parts))
}
