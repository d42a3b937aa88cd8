//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
)

// cublasltTiles says what part of the peak of float32 cuBLASLt is taken to reach with
// large products, as productTiles do. Not measured.
var cublasltTiles = map[Precision]tile{
	FP32: {"cuBLASLt", 128, 128, 256, 0.9},
	TF32: {"cuBLASLt", 128, 128, 256, 4.5},
	BF16: {"cuBLASLt", 128, 128, 256, 5},
}

// cublasltProduct is a product of matrices, whose rows are of different records.
type cublasltProduct driver.Product

func (p cublasltProduct) records() (count, in, weights, out int) { return p.M, p.K, p.K * p.N, p.N }

func (p cublasltProduct) prepare(l *mathLibraries, o operands) (*driver.PreparedCall, error) {
	b, err := l.blas()
	if err != nil {
		return nil, err
	}
	return b.Prepare(driver.Product(p), o.in, o.weights, o.out)
}

// multiplyWithCuBLASLt has cuBLASLt compute a product where that saves time against own
// kernels, which take so many seconds.
func (c *compiler) multiplyWithCuBLASLt(p matrixProduct, own float64) bool {
	if p.transA {
		return false
	}
	s := cublasltProduct{TransB: p.transB, M: p.rows, N: p.columns, K: p.depth, Precision: driver.Precision(c.options.Precision)}
	t := cublasltTiles[c.options.Precision]
	time := t.stepSeconds(t.count(p.rows, p.columns), c.device.Multiprocessors()) * float64(p.depth)
	ended := p.bias == 0 && p.act == op.Identity
	if !ended {
		time += passSeconds(p.rows * p.columns)
	}
	if !c.useLibrary(t.name, libraryTask{s, operands{p.a, p.b, p.out}}, time, own) {
		return false
	}
	if !ended {
		c.launchAddSlices(p.out, p.out, p.bias, p.rows*p.columns, p.columns, 1, p.act, false)
	}
	return true
}
