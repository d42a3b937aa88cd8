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
	using sync.Mutex // each call sets the stream first
}

// Convolution applies O kernels to N images of C×H×W and gives N×O×High×Wide; or, if
// Backward is set, computes the gradient with respect to the images from the gradient of
// that result. A pair is vertical, horizontal.
type Convolution struct {
	Backward                      bool
	N, C, H, W                    int
	O, Groups, High, Wide         int
	Kernel, Stride, Pad, Dilation [2]int
	Precision                     Precision
}

// OpenCuDNN opens the cuDNN that DPTRAIN_CUDNN names, or the newest installed version. If
// the name is not a file, for example none, no cuDNN is used.
func OpenCuDNN(d *Device) (*CuDNN, error) {
	n := &CuDNN{library: library{device: d, name: "cuDNN", variable: "DPTRAIN_CUDNN", file: "libcudnn.so.",
		versions: []int{9, 8}}}
	n.title = func() string {
		v := n.version()
		return fmt.Sprintf("cuDNN %d.%d.%d", v/10000, v/100%100, v%100)
	}
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
		return fmt.Errorf("%v cannot be used: dptrain needs version 8.9 or 9", n)
	}
	if cuda := int(C.driver_dnn_cuda(n.c)) / 1000; cuda > newestCUDA() {
		return fmt.Errorf("%v cannot be used: it needs CUDA %d, and the driver supports CUDA %d", n, cuda, newestCUDA())
	}
	// cuDNN ends the process if it cannot load cuBLASLt.
	if err := n.requireLibrary("cuBLASLt", "libcublasLt.so.", int(C.driver_dnn_cuda(n.c))/1000); err != nil {
		return err
	}
	return n.check("cuDNN cannot be initialized", C.driver_dnn_start(n.device.current, n.c))
}

// version is 91002 for 9.10.2.
func (n *CuDNN) version() int {
	v := int(C.driver_dnn_version(n.c))
	if v < 10000 { // the encoding of versions up to 8
		v = v/1000*10000 + v%1000
	}
	return v
}

func (n *CuDNN) String() string {
	return fmt.Sprintf("%s (%s)", n.title(), n.path)
}

// Prepare chooses an algorithm for a convolution of operands at these addresses. The
// choice depends only on the shape, the GPU and the library. Each element is a sum of
// products, and cuDNN documents the algorithm as deterministic. Its workspace is at most
// the size of the operands plus 32 MiB. TF32 rounds operands on tensor cores. BF16 is not
// supported, because cuDNN needs bfloat16 operands for it.
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
	if err := n.check(fmt.Sprintf("cuDNN has no suitable algorithm for %+v", v), status); err != nil {
		return nil, err
	}
	return &PreparedCall{
		Algorithm: fmt.Sprintf("%d/%d", C.driver_dnn_algorithm(made), C.driver_dnn_math(made)),
		library:   &n.library, what: v, workspace: int(C.driver_dnn_workspace(made)),
		run: func(workspace C.CUdeviceptr) C.int {
			n.using.Lock()
			defer n.using.Unlock()
			return C.driver_dnn_run(n.device.current, n.device.stream, made, workspace)
		},
		drop: func() { C.driver_dnn_destroy(made) },
	}, nil
}

// Close releases the library's resources on the device. The caller closes all prepared
// calls first.
func (n *CuDNN) Close() { C.driver_dnn_close(n.device.current, n.c) }

// valid reports a convolution that is impossible.
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
