package clip_test

import (
	"fmt"

	"github.com/dptrain/dptrain/clip"
)

// Four parameters share a bound of 1: each has its own group with the bound ½.
func ExamplePerParameter() {
	names := []string{"conv.weight", "conv.bias", "fc.weight", "fc.bias"}
	for _, group := range clip.PerParameter(names, clip.Constant(1), nil) {
		fmt.Println(group.Name, group.Bound.At(0))
	}
	// Output:
	// conv.weight 0.5
	// conv.bias 0.5
	// fc.weight 0.5
	// fc.bias 0.5
}
