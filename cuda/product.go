//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/internal/op"
)

// products queues what is a product of matrices, or comes of one.
func (c *compiler) products(spec op.Spec, k call) bool {
	if k.accumulate {
		return false
	}
	switch s := spec.(type) {
	case op.MatMul:
		return c.matmul(s, k)
	case op.MatVec:
		return c.matvec(s, k)
	case op.Linear:
		return c.linear(s, k)
	}
	return false
}

func (c *compiler) matmul(s op.MatMul, k call) bool {
	m, n, d, err := s.Sizes(k.shapes[0], k.shapes[1])
	if err != nil {
		return false
	}
	c.product(product{a: k.in[0], b: k.in[1], out: k.out, transA: s.TransA, transB: s.TransB, rows: m, columns: n, depth: d})
	return true
}

// matvec is a product with a matrix of one column.
func (c *compiler) matvec(s op.MatVec, k call) bool {
	m, d, err := s.Sizes(k.shapes[0], k.shapes[1])
	if err != nil {
		return false
	}
	c.product(product{a: k.in[0], b: k.in[1], out: k.out, transA: s.Trans, rows: m, columns: 1, depth: d})
	return true
}

func (c *compiler) linear(s op.Linear, k call) bool {
	m, n, d, err := op.MatMul{}.Sizes(k.shapes[0], k.shapes[1])
	if err != nil {
		return false
	}
	c.product(product{a: k.in[0], b: k.in[1], bias: k.in[2], out: k.out, rows: m, columns: n, depth: d, act: s.Act})
	return true
}
