//go:build gpu

package driver

// #include <stdlib.h>
// #include "blas.h"
// #cgo nocallback driver_blas_run
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"unsafe"

	"gorgonia.org/cu"
)

// Blas is cuBLASLt on a device.
type Blas struct {
	device  *Device
	library *C.driver_blas
	path    string
}

// ErrNoBlas is why there is no cuBLASLt: no file of it is found.
var ErrNoBlas = errors.New("cuBLASLt was not found")

// Precision is how the products of two float32 are made; they are summed in float32.
type Precision uint8

const (
	FP32 Precision = iota // of float32
	TF32                  // of operands rounded to 10 bits of mantissa
	BF16                  // of operands rounded to bfloat16
)

// Product is op(A)·op(B), or that added to C: A is M×K, B is K×N, C is M×N, once
// transposed. Rows lie one after the other, Ld numbers apart; the matrices of a
// batch lie Stride numbers apart.
type Product struct {
	TransA, TransB            bool
	M, N, K                   int
	LdA, LdB, LdC             int
	Batch                     int
	StrideA, StrideB, StrideC int
	Accumulate                bool
	Precision                 Precision
}

// Prepared is a product of certain operands.
type Prepared struct {
	blas    *Blas
	product Product
	c       *C.driver_product
}

// OpenBlas opens the cuBLASLt that DPTRAIN_CUBLASLT names, or the newest that is
// installed and that the driver serves. A name that is no file's, such as none, does
// without.
func OpenBlas(d *Device) (*Blas, error) {
	b := &Blas{device: d}
	if err := b.open(); err != nil {
		return nil, err
	}
	most := 4 << 20 // what NVIDIA recommends
	if d.Arch() >= 90 {
		most = 32 << 20
	}
	status := C.driver_blas_start(d.current, b.library, C.uint64_t(most))
	if err := b.check("cuBLASLt does not start", status); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (b *Blas) open() error {
	if b.device.Emulated() && os.Getenv(blasVariable) == "" {
		return fmt.Errorf("%w (the emulated device has none)", ErrNoBlas)
	}
	var none error
	for _, path := range libraries() {
		err := b.openFile(path)
		if err == nil || !errors.Is(err, ErrNoBlas) {
			return err
		}
		if none == nil {
			none = err
		}
	}
	return none
}

func (b *Blas) openFile(path string) error {
	var failure [512]C.char
	var found C.int
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	b.library = C.driver_blas_open(name, &found, &failure[0], C.size_t(len(failure)))
	b.path = path
	if b.library == nil {
		why := C.GoString(&failure[0])
		if found == 0 {
			return fmt.Errorf("%w (%s)", ErrNoBlas, why)
		}
		return fmt.Errorf("cuBLASLt cannot be used: %s", why)
	}
	if major := b.version() / 10000; major < 12 || major > newest() {
		wanted := "12 or 13"
		if newest() == 12 {
			wanted = "12"
		}
		err := fmt.Errorf("%v cannot be used: with this driver its version must be %s", b, wanted)
		b.Close()
		return err
	}
	return nil
}

const blasVariable = "DPTRAIN_CUBLASLT"

// newest is the newest version of cuBLASLt that is known and that the driver serves.
func newest() int {
	if cu.Version() < 13000 {
		return 12
	}
	return 13
}

// libraries lists where cuBLASLt may be: where the linker looks, in NVIDIA's folder,
// in the folders of Python's packages.
func libraries() []string {
	if path := os.Getenv(blasVariable); path != "" {
		return []string{path}
	}
	var prefixes []string
	for _, prefix := range []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX"), filepath.Join(os.Getenv("HOME"), ".local"), "/usr/local", "/usr"} {
		if filepath.IsAbs(prefix) {
			prefixes = append(prefixes, prefix)
		}
	}
	var paths []string
	for v := newest(); v >= 12; v-- {
		version := strconv.Itoa(v)
		file := "libcublasLt.so." + version
		paths = append(paths, file)
		for _, folder := range []string{os.Getenv("CUDA_HOME"), "/usr/local/cuda", "/usr/local/cuda-" + version, "/opt/cuda"} {
			if folder != "" {
				paths = append(paths, filepath.Join(folder, "lib64", file))
			}
		}
		for _, prefix := range prefixes {
			for _, folder := range []string{"lib/python3*/site-packages", "lib/python3*/dist-packages"} {
				for _, wheel := range []string{"nvidia/cublas/lib", "nvidia/cu13/lib"} {
					found, _ := filepath.Glob(filepath.Join(prefix, folder, wheel, file)) // the pattern is well formed
					paths = append(paths, found...)
				}
			}
		}
	}
	return paths
}

// version is 120901 for 12.9.1.
func (b *Blas) version() int {
	v := int(C.driver_blas_version(b.library))
	if v < 100000 { // as versions up to 11 count
		v = v/1000*10000 + v%1000
	}
	return v
}

func (b *Blas) String() string {
	v := b.version()
	return fmt.Sprintf("cuBLASLt %d.%d.%d (%s)", v/10000, v/100%100, v%100, b.path)
}

// Prepare chooses how to compute a product of operands at these addresses: always
// the same way for the same shape, card, library and alignment up to 16 bytes, and each
// number as one sum.
func (b *Blas) Prepare(p Product, at, bt, ct Pointer) (*Prepared, error) {
	if err := p.valid(); err != nil {
		return nil, err
	}
	// Rows that lie one after the other are the columns of the transposed matrix, and
	// the transposed product is that of the transposed operands in the other order.
	shape := C.driver_shape{
		m: C.uint64_t(p.N), n: C.uint64_t(p.M), k: C.uint64_t(p.K),
		transpose_a: bit(p.TransB), transpose_b: bit(p.TransA),
		lda: C.int64_t(p.LdB), ldb: C.int64_t(p.LdA), ldc: C.int64_t(p.LdC),
		batch:    C.int32_t(p.Batch),
		stride_a: C.int64_t(p.StrideB), stride_b: C.int64_t(p.StrideA), stride_c: C.int64_t(p.StrideC),
		accumulate: bit(p.Accumulate),
		compute:    [...]C.int{FP32: 68, TF32: 77, BF16: 75}[p.Precision], // CUBLAS_COMPUTE_32F, _FAST_TF32, _FAST_16BF
		a:          C.CUdeviceptr(bt), b: C.CUdeviceptr(at), c: C.CUdeviceptr(ct),
	}
	m := &Prepared{blas: b, product: p}
	status := C.driver_blas_prepare(b.device.current, b.library, &shape, &m.c)
	if err := b.check(fmt.Sprintf("cuBLASLt has no way to compute %+v", p), status); err != nil {
		return nil, err
	}
	return m, nil
}

// valid tells which number of a product is impossible.
func (p Product) valid() error {
	columns := func(rows, columns int, transposed bool) int {
		if transposed {
			return rows
		}
		return columns
	}
	for _, c := range []struct {
		name        string
		value, from int
	}{
		{"M", p.M, 1}, {"N", p.N, 1}, {"K", p.K, 1}, {"Batch", p.Batch, 1},
		{"LdA", p.LdA, columns(p.M, p.K, p.TransA)}, {"LdB", p.LdB, columns(p.K, p.N, p.TransB)}, {"LdC", p.LdC, p.N},
		{"StrideA", p.StrideA, 0}, {"StrideB", p.StrideB, 0}, {"StrideC", p.StrideC, 0},
	} {
		if c.value < c.from {
			return fmt.Errorf("product %+v: %s must be at least %d", p, c.name, c.from)
		}
	}
	if p.Precision > BF16 {
		return fmt.Errorf("product %+v: there is no such precision", p)
	}
	return nil
}

// Workspace is how many bytes Run needs.
func (m *Prepared) Workspace() int { return int(C.driver_blas_workspace(m.c)) }

// Run computes the product, asynchronously. It takes no memory but the workspace, and
// may be recorded.
func (m *Prepared) Run(workspace Pointer) error {
	status := C.driver_blas_run(m.blas.device.current, m.blas.device.stream, m.c, C.CUdeviceptr(workspace))
	if status != 0 {
		return m.blas.check(fmt.Sprintf("cuBLASLt cannot compute %+v", m.product), status)
	}
	return nil
}

// Close gives back what was prepared. Recordings of it stay good.
func (m *Prepared) Close() {
	if m != nil && m.c != nil {
		C.driver_blas_drop(m.c)
		m.c = nil
	}
}

// Close gives back what the library took of the device, after all that was prepared.
func (b *Blas) Close() { C.driver_blas_close(b.device.current, b.library) }

func (b *Blas) check(failure string, status C.int) error {
	switch {
	case status == 0:
		return nil
	case status < 0:
		return b.device.failed(failure, C.CUresult(-status))
	}
	return fmt.Errorf("%v: %s: %s (%s)", b.device, failure, C.GoString(C.driver_blas_status(b.library, status)), b)
}

func bit(set bool) C.int {
	if set {
		return 1
	}
	return 0
}
