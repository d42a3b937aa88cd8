//go:build gpu

package compile

import (
	"testing"

	"github.com/dptrain/dptrain/cuda/internal/driver"
)

// tolerances are the differences from the reference that tests allow on a card. The
// emulated device, whose functions are the host's, differs by less.
type tolerances struct {
	// products is the error of a sum of up to 300 products, relative to the largest sum of
	// absolute terms. In FP32 each step is one rounding of at most 2⁻²⁴. TF32 and bfloat16
	// round each operand by at most 2⁻¹¹ and 2⁻⁸.
	products float64
	// rounded is the same if the reference's operands are rounded as the tensor cores round
	// them. Tensor cores align the terms of a step to the largest and truncate (Fasi et al.
	// 2021, "Numerical behavior of NVIDIA tensor cores"): for 72 products in steps of 4,
	// 18·5·2⁻²³ = 1.1e-5 of the largest term at most.
	rounded float64
	// split is the error of the same sum from split operands, by the bound of kernels/split.h.
	split float64
	// functions is the error of results of exp, tanh and the like, relative to the largest
	// result: such a function of CUDA errs by at most 2 units in the last place, 2.4e-7
	// ("CUDA C++ Programming Guide", mathematical functions), and a few enter one result.
	functions float64
	// weights is the difference of a weight from the CPU's after training, relative to the
	// largest weight. A rounding is large where a maximum or a ReLU changes sides.
	weights float64
	// training is the distance of all weights from the CPU's after training, relative to
	// their way: 20 units of rounding of the operands.
	training float64
}

var allowed = map[Precision]tolerances{
	FP32: {products: 2e-6, rounded: 2e-6, functions: 4e-6, weights: 1e-3},
	TF32: {products: 2e-3, rounded: 2e-5, split: 25 * 39 * 0x1p-24, functions: 2e-3, training: 20. / (1 << 11)},
	BF16: {products: 1.5e-2, rounded: 2e-5, functions: 1.5e-2, training: 20. / (1 << 8)},
}

// allowedWeights is the difference of weights that is allowed on this device. On the
// emulated device no network but those that the caller names needs more than a tenth.
func allowedWeights(t *testing.T) float64 {
	t.Helper()
	list, err := driver.Devices()
	if err != nil {
		t.Fatal(err)
	}
	if list[0].Emulated() {
		return allowed[FP32].weights / 10
	}
	return allowed[FP32].weights
}
