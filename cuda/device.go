package cuda

import "fmt"

// Options say where and how a program runs.
type Options struct {
	Ordinal   int
	Precision Precision
}

// Device describes a GPU.
type Device struct {
	Ordinal  int
	Name     string
	Arch     int // 90 for compute capability 9.0
	Free     int64
	Total    int64
	Emulated bool
}

// Precision is how products are computed. Norms, sums and everything else are
// float32 or better whatever it says.
type Precision uint8

const (
	FP32 Precision = iota // float32 throughout
	TF32                  // operands rounded to 10 bits of mantissa, sums in float32
	BF16                  // operands rounded to bfloat16, sums in float32
)

var precisions = []string{"fp32", "tf32", "bf16"}

func (p Precision) String() string { return precisions[p] }

// ParsePrecision reads a precision's name.
func ParsePrecision(name string) (Precision, error) {
	for i, p := range precisions {
		if p == name {
			return Precision(i), nil
		}
	}
	return 0, fmt.Errorf("precision %q is unknown: use one of fp32, tf32, bf16", name)
}
