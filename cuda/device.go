// Package cuda compiles programs for NVIDIA GPUs and runs them. It needs the build tag
// gpu; without it every function returns [ErrNotBuilt]. Package kernels contains the
// kernels, package driver binds the CUDA driver, and package emu is an emulated device on
// which every test of this package runs.
package cuda

import (
	"errors"
	"fmt"
)

var (
	// ErrNotBuilt is why a build without the tag gpu has no devices.
	ErrNotBuilt = errors.New("this build has no CUDA: build it with `make gpu`, or use --device cpu")
	// ErrNoLibrary says that a library is not installed; what it would compute follows.
	ErrNoLibrary = errors.New("own kernels compute all")
)

// Options say where and how a program runs.
type Options struct {
	Ordinal   int
	Precision Precision
}

// Device describes a GPU.
type Device struct {
	Ordinal  int
	Name     string
	Arch     int   // 90 for compute capability 9.0
	Memory   int64 // bytes
	Emulated bool
}

func (d Device) String() string { return fmt.Sprintf("cuda:%d", d.Ordinal) }

// Precision is how products forward and backward are computed, attention's among them.
// Norms, sums over records and everything else are float32 or better whatever it says:
// what a record adds may not be larger than the norm that was found for it. A card older
// than 8.0 has no tensor cores for the others and computes in FP32.
type Precision uint8

const (
	FP32 Precision = iota // float32 throughout
	TF32                  // operands rounded to 10 bits of mantissa, sums in float32
	BF16                  // operands rounded to bfloat16, sums in float32
)

var precisions = []string{"fp32", "tf32", "bf16"}

func (p Precision) String() string { return precisions[p] }

// ParsePrecision reads a precision's name; none is FP32.
func ParsePrecision(name string) (Precision, error) {
	if name == "" {
		return FP32, nil
	}
	for i, p := range precisions {
		if p == name {
			return Precision(i), nil
		}
	}
	return 0, fmt.Errorf("precision %q is unknown: use one of fp32, tf32, bf16", name)
}
