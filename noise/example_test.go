package noise_test

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/noise"
)

// Any part of a vector of noise can be sampled anywhere, in any order.
func ExampleSource() {
	source := noise.NewSeeded(1) // noise.New() where privacy is meant
	stream := noise.Stream{Purpose: noise.Release, Lot: 12, Vector: 3}

	whole := make([]float32, 1024)
	if err := source.Normals(whole, stream, 0); err != nil {
		fmt.Println(err)
	}
	half := make([]float32, 512)
	if err := source.Normals(half, stream, 512); err != nil {
		fmt.Println(err)
	}
	fmt.Println(slices.Equal(half, whole[512:]), source.Secure())
	// Output: true false
}

func ExampleProportional() {
	groups := []noise.GroupSize{{Sensitivity: 1, Dimension: 10}, {Sensitivity: 0.1, Dimension: 90}}
	sigmas, err := noise.Proportional(1.1, groups)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%.3f\n", sigmas)
	// Output: [1.556 0.156]
}

// A count of sensitivity 1 with Gaussian noise of standard deviation 4, exact to the last bit.
func ExampleRoundedGaussian() {
	source := noise.NewSeeded(1) // noise.New() where privacy is meant
	stream := noise.Stream{Purpose: noise.Release, Lot: 12, Vector: 3}

	gaussian := noise.RoundedGaussian{Sigma: 4}
	released, err := gaussian.AddOne(source, 1000, stream)
	if err != nil {
		fmt.Println(err)
	}
	// The release is a number of grid steps.
	fmt.Printf("%d·2^%d = %v\n", released, gaussian.Grid(), math.Ldexp(float64(released), gaussian.Grid()))
	// Output: 63976·2^-6 = 999.625
}
