package clipping_test

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/internal/clipping"
)

// soft is a custom rule: it scales all records smoothly, long ones to the bound. A mistake in a
// rule can cost accuracy but not privacy.
type soft struct{}

func (soft) Factor(norm, bound float64) float64 { return bound / math.Hypot(norm, bound) }

func ExampleClipper() {
	groups := []clip.Group{
		{Name: "convolutions", Parameters: []string{"conv*"}, Bound: clip.Constant(0.5), Rule: soft{}},
		{Name: "head", Parameters: []string{"fc.weight", "fc.bias"}, Scales: []float64{1, 0.1}, Bound: clip.Constant(1)},
	}
	names := []string{"conv.weight", "conv.bias", "fc.weight", "fc.bias"}
	c, err := clipping.NewClipper(names, groups, clipping.Float32Accuracy)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := c.BeginLot(0); err != nil {
		fmt.Println(err)
		return
	}
	sq := [][]float32{{9, 0.09}, {16, 0.16}, {3, 0}, {0.06, 0.0001}}
	factors := [][]float32{make([]float32, 2), make([]float32, 2)}
	if err := c.ComputeFactors(factors, sq, 2); err != nil {
		fmt.Println(err)
		return
	}
	for g, part := range c.Groups() {
		fmt.Printf("%s: S = %g, factors %.3f\n", part.Name, c.Sensitivities()[g], factors[g])
	}
	// Output:
	// convolutions: S = 0.5, factors [0.100 0.707]
	// head: S = 1, factors [0.333 1.000]
}
