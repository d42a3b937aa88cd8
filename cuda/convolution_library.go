//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
)

// convolutionLibrary says what part of the peak of float32 cuDNN is taken to reach with
// large convolutions, as convolutionTiles do, once operands lie as it wants them. Not
// measured. In bfloat16 own kernels compute all: cuDNN reads no float32 there.
var convolutionLibrary = map[Precision]tile{
	FP32: {"cuDNN", 128, 128, 256, 0.85},
	TF32: {"cuDNN", 128, 128, 256, 4},
}

// libraryConvolution is a convolution, or the gradient in the pictures, each picture of
// one record.
type libraryConvolution driver.Convolution

func (v libraryConvolution) records() (count, in, weights, out int) {
	in, out = v.C*v.H*v.W, v.O*v.High*v.Wide
	if v.Backward {
		in, out = out, in
	}
	return v.N, in, v.O * v.C / v.Groups * v.Kernel[0] * v.Kernel[1], out
}

func (v libraryConvolution) prepare(l *libraries, o operands) (*driver.Prepared, error) {
	n, err := l.dnn()
	if err != nil {
		return nil, err
	}
	return n.Prepare(driver.Convolution(v), o.in, o.weights, o.out)
}

// convolvedByLibrary has cuDNN compute a convolution of so many results, each of depth
// products, where that saves time against own kernels, which take so many seconds.
func (c *compiler) convolvedByLibrary(v convolution, r convolved, columns, depth int, own float64) bool {
	t, ok := convolutionLibrary[c.options.Precision]
	if !ok {
		return false
	}
	s := libraryConvolution{
		Backward: r.backward, N: r.count, C: v.C, H: v.H, W: v.W, O: v.O, Groups: v.Groups, High: v.high, Wide: v.wide,
		Kernel: [2]int{v.KernelH, v.KernelW}, Stride: [2]int{v.StrideH, v.StrideW},
		Pad: [2]int{v.PadH, v.PadW}, Dilation: [2]int{v.DilationH, v.DilationW},
		Precision: driver.Precision(c.options.Precision),
	}
	count, in, _, out := s.records()
	time := t.time(t.count(r.rows, columns), c.device.Multiprocessors()) * float64(depth)
	if c.options.Precision == TF32 { // tensor cores want a picture's channels side by side
		time += passing(count*in) + passing(count*out)
	}
	ended := r.bias == 0 && r.act == op.Identity
	if !ended {
		time += passing(count * out)
	}
	if !c.byLibrary(t.name, task{s, operands{r.from.Data, r.weight, r.out}}, time, own) {
		return false
	}
	if !ended {
		c.endConvolution(v, r, r.out, 1)
	}
	return true
}
