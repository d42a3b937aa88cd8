//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/internal/op"
)

// products queues what is a product of matrices.
func (c *compiler) products(spec op.Spec, k call) bool {
	switch s := spec.(type) {
	case op.MatMul:
		m, n, d, err := s.Sizes(k.shapes[0], k.shapes[1])
		if err != nil {
			return false
		}
		c.product(product{
			a: k.in[0], b: k.in[1], out: k.out, transA: s.TransA, transB: s.TransB, rows: m, columns: n, depth: d,
		})
		return true
	case op.MatVec: // a product with a matrix of one column
		m, d, err := s.Sizes(k.shapes[0], k.shapes[1])
		if err != nil {
			return false
		}
		c.product(product{a: k.in[0], b: k.in[1], out: k.out, transA: s.Trans, rows: m, columns: 1, depth: d})
		return true
	case op.Linear:
		m, n, d, err := op.MatMul{}.Sizes(k.shapes[0], k.shapes[1])
		if err != nil {
			return false
		}
		c.product(product{a: k.in[0], b: k.in[1], bias: k.in[2], out: k.out, rows: m, columns: n, depth: d, act: s.Act})
		return true
	case op.Dot:
		c.dot(k)
		return true
	}
	return false
}

// dot adds up in float64: parts, then the parts.
func (c *compiler) dot(k call) {
	n := k.size(0)
	parts := min(ceil(n, 4096), 256)
	partial := c.scratch(8 * parts)
	c.launch("dot_parts", dim{uint32(parts), 1, 1}, threads, partial, k.in[0], k.in[1], int32(n))
	c.launch("dot", dim{1, 1, 1}, threads, k.out, partial, int32(parts))
}
