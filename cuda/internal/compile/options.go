package compile

import (
	"errors"
	"fmt"

	"github.com/dptrain/dptrain/internal/ranks"
)

// ErrNoLibrary means that a library is not installed. The error names what dptrain's own kernels then
// compute.
var ErrNoLibrary = errors.New("own kernels compute all")

// Options select the GPU, the precision and the ranks.
type Options struct {
	Ordinal   int
	Precision Precision
	// Ranks each release a part of the elements of a program whose integers they add on their GPUs. nil: this process
	// releases all.
	Ranks ranks.Communicator
}

// Precision is the precision of products in the forward and the backward pass, including
// those of attention. Everything else is computed in float32 or better at every precision,
// except gradients of weights, per record or summed, and Gram matrices, where tensor cores
// compute from operands that are split in two TF32 numbers (kernels/split.h) if that is
// faster. The contribution of a record must not exceed the norm computed for it. A GPU
// older than compute capability 8.0 has no tensor cores for TF32 and BF16, and computes in
// FP32.
type Precision uint8

const (
	FP32 Precision = iota // float32 throughout
	TF32                  // operands rounded to 10 mantissa bits, sums in float32
	BF16                  // operands rounded to bfloat16, sums in float32
)

var precisions = []string{"fp32", "tf32", "bf16"}

func (p Precision) String() string { return precisions[p] }

// ParsePrecision parses a precision's name; the empty name is FP32.
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
