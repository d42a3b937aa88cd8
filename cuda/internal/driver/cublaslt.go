//go:build gpu

package driver

// #include "cublaslt.h"
// #cgo nocallback driver_blas_run
import "C"

import "fmt"

// CuBLASLt is cuBLASLt on a device.
type CuBLASLt struct {
	library
	c *C.driver_blas
}

// Precision is how products of two float32 numbers are computed; the sums are float32.
type Precision uint8

const (
	FP32 Precision = iota // of float32
	TF32                  // of operands rounded to 10 bits of mantissa
	BF16                  // of operands rounded to bfloat16
)

// Product is A·B with an M×N result: A is M×K; B is K×N, or, if TransB is set, N×K. All
// matrices are row-major.
type Product struct {
	TransB    bool
	M, N, K   int
	Precision Precision
}

// OpenCuBLASLt opens the cuBLASLt that DPTRAIN_CUBLASLT names, or the newest installed
// version that the driver supports. If the name is not a file, for example none, no
// cuBLASLt is used.
func OpenCuBLASLt(d *Device) (*CuBLASLt, error) {
	b := &CuBLASLt{library: library{device: d, name: "cuBLASLt", variable: "DPTRAIN_CUBLASLT", file: "libcublasLt.so."}}
	for v := newestCUDA(); v >= 12; v-- {
		b.versions = append(b.versions, v)
	}
	b.title = func() string {
		v := b.version()
		return fmt.Sprintf("cuBLASLt %d.%d.%d", v/10000, v/100%100, v%100)
	}
	b.status = func(status C.int) string { return C.GoString(C.driver_blas_status(b.c, status)) }
	err := b.find(func(path *C.char, found *C.int, failure *C.char, bytes C.size_t) bool {
		b.c = C.driver_blas_open(path, found, failure, bytes)
		return b.c != nil
	})
	if err != nil {
		return nil, err
	}
	if err := b.start(); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (b *CuBLASLt) start() error {
	if major := b.version() / 10000; major < 12 || major > newestCUDA() {
		wanted := "12 or 13"
		if newestCUDA() == 12 {
			wanted = "12"
		}
		return fmt.Errorf("%v cannot be used: this driver supports version %s", b, wanted)
	}
	most := 4 << 20 // as NVIDIA recommends
	if b.device.Arch() >= 90 {
		most = 32 << 20
	}
	return b.check("cuBLASLt cannot be initialized", C.driver_blas_start(b.device.current, b.c, C.uint64_t(most)))
}

// version is 120901 for 12.9.1.
func (b *CuBLASLt) version() int {
	v := int(C.driver_blas_version(b.c))
	if v < 100000 { // the encoding of versions up to 11
		v = v/1000*10000 + v%1000
	}
	return v
}

func (b *CuBLASLt) String() string {
	return fmt.Sprintf("%s (%s)", b.title(), b.path)
}

// Prepare chooses an algorithm for a product of operands at these addresses. The choice
// depends only on the shape, the GPU, the library and the alignment up to 16 bytes. Each
// element is one sum.
func (b *CuBLASLt) Prepare(p Product, at, bt, ct Pointer) (*PreparedCall, error) {
	if err := p.valid(); err != nil {
		return nil, err
	}
	// cuBLASLt is column-major: the rows of a matrix are the columns of its transpose, and
	// (A·B)ᵀ = Bᵀ·Aᵀ.
	shape := C.driver_product_shape{
		m: C.uint64_t(p.N), n: C.uint64_t(p.M), k: C.uint64_t(p.K), transpose: cBool(p.TransB),
		compute: [...]C.int{FP32: 68, TF32: 77, BF16: 75}[p.Precision], // CUBLAS_COMPUTE_32F, _FAST_TF32, _FAST_16BF
		a:       C.CUdeviceptr(bt), b: C.CUdeviceptr(at), c: C.CUdeviceptr(ct),
	}
	var made *C.driver_product
	status := C.driver_blas_prepare(b.device.current, b.c, &shape, &made)
	if err := b.check(fmt.Sprintf("cuBLASLt has no suitable algorithm for %+v", p), status); err != nil {
		return nil, err
	}
	return &PreparedCall{
		Algorithm: C.GoStringN((*C.char)(C.driver_blas_algorithm(made)), C.BLAS_ALGORITHM_BYTES),
		library:   &b.library, what: p, workspace: int(C.driver_blas_workspace(made)),
		run: func(workspace C.CUdeviceptr) C.int {
			return C.driver_blas_run(b.device.current, b.device.stream, made, workspace)
		},
		drop: func() { C.driver_blas_destroy(made) },
	}, nil
}

// valid reports a product that is impossible.
func (p Product) valid() error {
	switch {
	case min(p.M, p.N, p.K) < 1:
		return fmt.Errorf("product %+v: sizes must be at least 1", p)
	case p.Precision > BF16:
		return fmt.Errorf("product %+v: Precision must be FP32, TF32 or BF16", p)
	}
	return nil
}

// Close releases the library's resources on the device. The caller closes all prepared
// calls first.
func (b *CuBLASLt) Close() { C.driver_blas_close(b.device.current, b.c) }

func cBool(set bool) C.int {
	if set {
		return 1
	}
	return 0
}
