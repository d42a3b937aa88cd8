package noise

import (
	"errors"
	"fmt"
	"math"
)

// A GroupSize describes a set of vectors that are clipped together. A record moves their sum by at most
// Sensitivity in Euclidean norm. They have Dimension coordinates in total.
type GroupSize struct {
	Sensitivity float64
	Dimension   int
}

// Proportional gives each of the G groups the standard deviation σ_g = z·√G·S_g, so all have
// the same ratio of noise to sensitivity. Together they compose to the noise multiplier
// z = (Σ_g (S_g/σ_g)²)^(-1/2): one release of all of them is as private as a single vector of
// sensitivity 1 with deviation z (McMahan et al., "A General Approach to Adding Differential
// Privacy to Iterative Training Procedures", arXiv:1812.06210).
func Proportional(z float64, groups []GroupSize) ([]float64, error) {
	count := float64(len(groups))
	return allocate(z, groups, func(int) float64 { return math.Sqrt(count) })
}

// ByShare gives group g the standard deviation σ_g = z·√(W/w_g)·S_g for its share w_g, where W is the sum
// of the shares: (S_g/σ_g)², the part of the cost that the group has, is proportional to its share.
// Together the groups compose to the noise multiplier z.
func ByShare(z float64, groups []GroupSize, shares []float64) ([]float64, error) {
	if len(shares) != len(groups) {
		return nil, fmt.Errorf("noise: there are %d shares for %d groups: give one for each", len(shares), len(groups))
	}
	total := 0.0
	for g, w := range shares {
		if !(w > 0) || math.IsInf(w, 1) {
			return nil, fmt.Errorf("noise: the share of group %d is %v: it must be positive and finite", g, w)
		}
		total += w
	}
	return allocate(z, groups, func(g int) float64 { return math.Sqrt(total / shares[g]) })
}

// DimensionAdjusted gives each group the standard deviation σ_g = z·√D·S_g/√d_g, where D is
// the sum of the dimensions d_g. A group with more coordinates has less noise relative to
// its sensitivity. Together they compose to the noise multiplier z (McMahan et al., same
// paper).
func DimensionAdjusted(z float64, groups []GroupSize) ([]float64, error) {
	total := 0.0
	for i, g := range groups {
		if g.Dimension < 1 {
			return nil, fmt.Errorf("noise: group %d has dimension %d: it must be at least 1", i, g.Dimension)
		}
		total += float64(g.Dimension)
	}
	return allocate(z, groups, func(g int) float64 { return math.Sqrt(total / float64(groups[g].Dimension)) })
}

func allocate(z float64, groups []GroupSize, ratio func(group int) float64) ([]float64, error) {
	if len(groups) == 0 {
		return nil, errors.New("noise: there are no groups")
	}
	if !(z > 0) || math.IsInf(z, 1) {
		return nil, fmt.Errorf("noise: the noise multiplier is %v: it must be positive and finite", z)
	}
	sigmas := make([]float64, len(groups))
	for i, g := range groups {
		if !(g.Sensitivity > 0) || math.IsInf(g.Sensitivity, 1) {
			return nil, fmt.Errorf("noise: group %d has sensitivity %v: it must be positive and finite", i, g.Sensitivity)
		}
		sigmas[i] = z * ratio(i) * g.Sensitivity
		if sigmas[i] == 0 || math.IsInf(sigmas[i], 1) {
			return nil, fmt.Errorf("noise: group %d: noise multiplier %v and sensitivity %v give the standard deviation %v, which is out of range", i, z, g.Sensitivity, sigmas[i])
		}
	}
	return sigmas, nil
}
