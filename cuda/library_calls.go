//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
)

// cublasltTiles give the fraction of the float32 peak that cuBLASLt is assumed to reach
// with large products, as productTiles do. Not measured.
var cublasltTiles = map[Precision]tile{
	FP32: {"cuBLASLt", 128, 128, 256, 0.9},
	TF32: {"cuBLASLt", 128, 128, 256, 4.5},
	BF16: {"cuBLASLt", 128, 128, 256, 5},
}

// cublasltProduct is a product of matrices; each row belongs to one record.
type cublasltProduct driver.Product

func (p cublasltProduct) records() (count, in, weights, out int) { return p.M, p.K, p.K * p.N, p.N }

func (p cublasltProduct) prepare(l *mathLibraries, o operands) (*driver.PreparedCall, error) {
	b, err := l.blas()
	if err != nil {
		return nil, err
	}
	return b.Prepare(driver.Product(p), o.in, o.weights, o.out)
}

// multiplyWithCuBLASLt queues a product for cuBLASLt if that is faster than dptrain's own
// kernels, which take own seconds.
func multiplyWithCuBLASLt(c *compiler, p matrixProduct, own float64) bool {
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
	if !useLibrary(c, t.name, libraryTask{s, operands{p.a, p.b, p.out}}, time, own) {
		return false
	}
	if !ended {
		launchAddSlices(c, p.out, p.out, p.bias, p.rows*p.columns, p.columns, 1, p.act, false)
	}
	return true
}

// cudnnTiles give the fraction of the float32 peak that cuDNN is assumed to reach with
// large convolutions, as convolutionTiles do, after operands are in its layout. Not
// measured. In bfloat16 dptrain's own kernels compute everything, because cuDNN's bfloat16
// algorithms do not read float32.
var cudnnTiles = map[Precision]tile{
	FP32: {"cuDNN", 128, 128, 256, 0.85},
	TF32: {"cuDNN", 128, 128, 256, 4},
}

// cudnnConvolution is a convolution or its gradient with respect to the input; each image
// belongs to one record.
type cudnnConvolution driver.Convolution

func (v cudnnConvolution) records() (count, in, weights, out int) {
	in, out = v.C*v.H*v.W, v.O*v.High*v.Wide
	if v.Backward {
		in, out = out, in
	}
	return v.N, in, v.O * v.C / v.Groups * v.Kernel[0] * v.Kernel[1], out
}

func (v cudnnConvolution) prepare(l *mathLibraries, o operands) (*driver.PreparedCall, error) {
	n, err := l.dnn()
	if err != nil {
		return nil, err
	}
	return n.Prepare(driver.Convolution(v), o.in, o.weights, o.out)
}

// convolveWithCuDNN queues a convolution for cuDNN if that is faster than dptrain's own
// kernels, which take own seconds. The result has columns columns, each a sum of depth
// products.
func convolveWithCuDNN(c *compiler, v convGeometry, r convolutionOutput, columns, depth int, own float64) bool {
	t, ok := cudnnTiles[c.options.Precision]
	if !ok {
		return false
	}
	s := cudnnConvolution{
		Backward: r.backward, N: r.count, C: v.C, H: v.H, W: v.W, O: v.O, Groups: v.Groups, High: v.outH, Wide: v.outW,
		Kernel: [2]int{v.KernelH, v.KernelW}, Stride: [2]int{v.StrideH, v.StrideW},
		Pad: [2]int{v.PadH, v.PadW}, Dilation: [2]int{v.DilationH, v.DilationW},
		Precision: driver.Precision(c.options.Precision),
	}
	count, in, _, out := s.records()
	time := t.stepSeconds(t.count(r.rows, columns), c.device.Multiprocessors()) * float64(depth)
	if c.options.Precision == TF32 { // tensor cores need an image's channels next to each other
		time += passSeconds(count*in) + passSeconds(count*out)
	}
	ended := r.bias == 0 && r.act == op.Identity
	if !ended {
		time += passSeconds(count * out)
	}
	if !useLibrary(c, t.name, libraryTask{s, operands{r.from.Data, r.weight, r.out}}, time, own) {
		return false
	}
	if !ended {
		finishConvolution(c, v, r, r.out, 1)
	}
	return true
}
