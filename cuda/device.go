// Package cuda runs programs of package plan on NVIDIA GPUs. It needs the build tag gpu; without it
// every function returns [ErrNotBuilt].
//
//	device, err := cuda.NewDevice(cuda.Options{Ordinal: 0, Precision: cuda.FP32})
//
// What is below it: compile turns a program into kernel launches and runs them; kernels has the kernels
// in CUDA C++; driver binds the CUDA driver; emu is a device for hosts without a card, and toolchain
// compiles the kernels.
package cuda

import (
	"fmt"

	"github.com/dptrain/dptrain/cuda/internal/compile"
	"github.com/dptrain/dptrain/internal/setting"
)

var (
	// ErrNotBuilt means that the binary was built without the tag gpu.
	ErrNotBuilt = setting.Errorf("Device.Name", "this build has no CUDA; build it with `make gpu`, or use %v", setting.With("Device.Name", "cpu"))
	// ErrNoLibrary means that a library is not installed. The error names what dptrain's own
	// kernels then compute.
	ErrNoLibrary = compile.ErrNoLibrary
)

// Options select the GPU and the precision.
type Options = compile.Options

// Precision is the precision of products in the forward and the backward pass: fp32, tf32 or bf16.
// Everything that bounds a record's contribution is computed in float32 or better.
type Precision = compile.Precision

// FP32 computes in float32 throughout.
const FP32 = compile.FP32

// ParsePrecision parses a precision's name; the empty name is FP32.
func ParsePrecision(name string) (Precision, error) { return compile.ParsePrecision(name) }

// Device describes a GPU.
type Device struct {
	Ordinal  int
	Name     string
	Arch     int   // 90 for compute capability 9.0
	Memory   int64 // bytes
	Emulated bool
}

func (d Device) String() string { return fmt.Sprintf("cuda:%d", d.Ordinal) }
