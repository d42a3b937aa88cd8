//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/internal/op"
	"gorgonia.org/tensor"
)

// products queues what is a product of matrices.
func (c *compiler) products(spec op.Spec, k call) bool {
	switch s := spec.(type) {
	case op.MatMul:
		c.product(multiplied(s, k.shapes, k))
	case op.MatVec:
		matrices, shapes := s.Product(k.shapes)
		c.product(multiplied(matrices, shapes, k))
	case op.Linear:
		p := multiplied(op.MatMul{}, k.shapes, k)
		p.bias, p.act = k.in[2], s.Act
		c.product(p)
	case op.Dot:
		c.dot(k)
	default:
		return false
	}
	return true
}

// multiplied is the product of the first two operands, matrices of the given shapes.
func multiplied(s op.MatMul, shapes []tensor.Shape, k call) product {
	m, n, d, _ := s.Sizes(shapes[0], shapes[1])
	return product{a: k.in[0], b: k.in[1], out: k.out, transA: s.TransA, transB: s.TransB, rows: m, columns: n, depth: d}
}

// dot adds up in float64: parts, then the parts.
func (c *compiler) dot(k call) {
	n := k.size(0)
	parts := min(ceil(n, 4096), 256)
	partial := c.scratch(8 * parts)
	c.launch("dot_parts", dim{uint32(parts), 1, 1}, threads, partial, k.in[0], k.in[1], int32(n))
	c.launch("dot", dim{1, 1, 1}, threads, k.out, partial, int32(parts))
}
