//go:build gpu

package driver

// #include "cudnn.h"
// #cgo nocallback driver_dnn_run
import "C"

import (
	"fmt"
	"sync"
)

// CuDNN is cuDNN on a device.
type CuDNN struct {
	library
	c     *C.driver_dnn
	using sync.Mutex // its stream is set before each call
}

// Convolution meets N pictures of C×H×W with O kernels and gives N×O×High×Wide; or,
// Backward, it makes of the gradient of that the gradient in the pictures. A pair is
// down and across.
type Convolution struct {
	Backward                      bool
	N, C, H, W                    int
	O, Groups, High, Wide         int
	Kernel, Stride, Pad, Dilation [2]int
	Precision                     Precision
}

// OpenCuDNN opens the cuDNN that DPTRAIN_CUDNN names, or the newest that is installed. A
// name that is no file's, such as none, does without.
func OpenCuDNN(d *Device) (*CuDNN, error) {
	n := &CuDNN{library: library{device: d, name: "cuDNN", variable: "DPTRAIN_CUDNN", file: "libcudnn.so.",
		versions: []int{9, 8}, wheels: []string{"nvidia/cudnn/lib"}}}
	n.status = func(status C.int) string { return C.GoString(C.driver_dnn_status(n.c, status)) }
	err := n.find(func(path *C.char, found *C.int, failure *C.char, bytes C.size_t) bool {
		n.c = C.driver_dnn_open(path, found, failure, bytes)
		return n.c != nil
	})
	if err != nil {
		return nil, err
	}
	if err := n.start(); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *CuDNN) start() error {
	if v := n.version(); v < 80900 || v >= 100000 {
		return fmt.Errorf("%v cannot be used: its version must be 8.9 or 9", n)
	}
	if cuda := int(C.driver_dnn_cuda(n.c)) / 1000; cuda > newestCUDA() {
		return fmt.Errorf("%v cannot be used: it is made for CUDA %d, and the driver serves %d", n, cuda, newestCUDA())
	}
	return n.check("cuDNN does not start", C.driver_dnn_start(n.device.current, n.c))
}

// version is 91002 for 9.10.2.
func (n *CuDNN) version() int {
	v := int(C.driver_dnn_version(n.c))
	if v < 10000 { // as versions up to 8 count
		v = v/1000*10000 + v%1000
	}
	return v
}

func (n *CuDNN) String() string {
	v := n.version()
	return fmt.Sprintf("cuDNN %d.%d.%d (%s)", v/10000, v/100%100, v%100, n.path)
}

// Prepare chooses how to compute a convolution of operands at these addresses: always
// the same way for the same shape, card and library, each number a sum of products, and
// one that cuDNN calls deterministic. Its workspace is no larger than the operands and
// 32 MiB. TF32 rounds operands on tensor cores; there is no BF16, for which cuDNN wants
// operands of bfloat16.
func (n *CuDNN) Prepare(v Convolution, in, kernels, out Pointer) (*PreparedCall, error) {
	if err := v.valid(); err != nil {
		return nil, err
	}
	pair := func(p [2]int) [2]C.int { return [2]C.int{C.int(p[0]), C.int(p[1])} }
	pictures := C.driver_convolution_shape{
		backward: cBool(v.Backward), n: C.int(v.N), c: C.int(v.C), h: C.int(v.H), w: C.int(v.W),
		o: C.int(v.O), groups: C.int(v.Groups), high: C.int(v.High), wide: C.int(v.Wide),
		kernel: pair(v.Kernel), stride: pair(v.Stride), pad: pair(v.Pad), dilation: pair(v.Dilation),
		tensor_cores: cBool(v.Precision == TF32),
		most:         C.uint64_t(4*v.N*(v.C*v.H*v.W+v.O*v.High*v.Wide) + 32<<20),
		in:           C.CUdeviceptr(in), kernels: C.CUdeviceptr(kernels), out: C.CUdeviceptr(out),
	}
	var made *C.driver_convolution
	status := C.driver_dnn_prepare(n.device.current, n.c, &pictures, &made)
	if err := n.check(fmt.Sprintf("cuDNN has no way to compute %+v", v), status); err != nil {
		return nil, err
	}
	return &PreparedCall{
		library: &n.library, what: v, workspace: int(C.driver_dnn_workspace(made)),
		run: func(workspace C.CUdeviceptr) C.int {
			n.using.Lock()
			defer n.using.Unlock()
			return C.driver_dnn_run(n.device.current, n.device.stream, made, workspace)
		},
		drop: func() { C.driver_dnn_destroy(made) },
	}, nil
}

// Close gives back what the library took of the device, after all that was prepared.
func (n *CuDNN) Close() { C.driver_dnn_close(n.device.current, n.c) }

// valid tells which number of a convolution is impossible.
func (v Convolution) valid() error {
	refused := func(why string) error { return fmt.Errorf("convolution %+v: %s", v, why) }
	outputSize := func(i, over int) int { return (over+2*v.Pad[i]-v.Dilation[i]*(v.Kernel[i]-1)-1)/v.Stride[i] + 1 }
	switch {
	case min(v.N, v.C, v.H, v.W, v.O, v.Groups, v.High, v.Wide) < 1,
		min(v.Kernel[0], v.Kernel[1], v.Stride[0], v.Stride[1], v.Dilation[0], v.Dilation[1]) < 1:
		return refused("sizes must be at least 1")
	case min(v.Pad[0], v.Pad[1]) < 0:
		return refused("Pad must be at least 0")
	case v.C%v.Groups != 0 || v.O%v.Groups != 0:
		return refused("Groups must divide C and O")
	case outputSize(0, v.H) != v.High || outputSize(1, v.W) != v.Wide:
		return refused(fmt.Sprintf("its result is %d×%d", outputSize(0, v.H), outputSize(1, v.W)))
	case v.Precision > TF32:
		return refused("Precision must be FP32 or TF32")
	}
	return nil
}
