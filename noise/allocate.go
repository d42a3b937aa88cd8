package noise

import (
	"errors"
	"fmt"
	"math"
)

// A Group is a set of vectors that are clipped together: a record moves their sum
// by at most Sensitivity in Euclidean norm, and they have Dimension coordinates.
type Group struct {
	Sensitivity float64
	Dimension   int
}

// Proportional gives each of the G groups the deviation σ_g = z·√G·S_g, so that
// all have the same ratio of noise to sensitivity and together compose to the
// noise multiplier z = (Σ_g (S_g/σ_g)²)^(-1/2): one release of all of them is as
// private as a single vector of sensitivity 1 with deviation z (McMahan et al.,
// "A General Approach to Adding Differential Privacy to Iterative Training
// Procedures", arXiv:1812.06210).
func Proportional(z float64, groups []Group) ([]float64, error) {
	count := float64(len(groups))
	return allocate(z, groups, func(Group) float64 { return math.Sqrt(count) })
}

// DimensionAdjusted gives each group the deviation σ_g = z·√D·S_g/√d_g, where D
// is the sum of the dimensions d_g: the larger a vector, the less noise for its
// sensitivity, and all compose to the noise multiplier z (McMahan et al., same
// paper).
func DimensionAdjusted(z float64, groups []Group) ([]float64, error) {
	total := 0.0
	for i, g := range groups {
		if g.Dimension < 1 {
			return nil, fmt.Errorf("noise: group %d has dimension %d: must be at least 1", i, g.Dimension)
		}
		total += float64(g.Dimension)
	}
	return allocate(z, groups, func(g Group) float64 { return math.Sqrt(total / float64(g.Dimension)) })
}

func allocate(z float64, groups []Group, share func(Group) float64) ([]float64, error) {
	if len(groups) == 0 {
		return nil, errors.New("noise: no groups to give noise to")
	}
	if !(z > 0) || math.IsInf(z, 1) {
		return nil, fmt.Errorf("noise: noise multiplier %v: must be positive and finite", z)
	}
	sigmas := make([]float64, len(groups))
	for i, g := range groups {
		if !(g.Sensitivity > 0) || math.IsInf(g.Sensitivity, 1) {
			return nil, fmt.Errorf("noise: group %d has sensitivity %v: must be positive and finite", i, g.Sensitivity)
		}
		sigmas[i] = z * share(g) * g.Sensitivity
		if sigmas[i] == 0 || math.IsInf(sigmas[i], 1) {
			return nil, fmt.Errorf("noise: group %d: multiplier %v and sensitivity %v give the deviation %v", i, z, g.Sensitivity, sigmas[i])
		}
	}
	return sigmas, nil
}
