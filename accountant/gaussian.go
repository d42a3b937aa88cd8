package accountant

import "github.com/dptrain/dptrain/accountant/internal/gaussian"

// GaussianEpsilon returns a proven ε at δ of one release with Gaussian noise whose standard deviation
// is 1/shift times the sensitivity, without sampling.
func GaussianEpsilon(shift, delta float64) float64 {
	upper, _ := gaussian.EpsilonBounds(shift, delta)
	return upper
}

// GaussianDelta returns δ at ε of the release of [GaussianEpsilon] in float64 (Balle and Wang 2018,
// "Improving the Gaussian Mechanism", theorem 8).
func GaussianDelta(shift, epsilon float64) float64 { return gaussian.Delta(shift, epsilon) }
