package clipping

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/internal/setting"
)

// checkQuantile returns an error if an adaptive bound is unusable.
func checkQuantile(q clip.Quantile, group string) error {
	switch {
	case !(q.Initial > 0) || math.IsInf(q.Initial, 1):
		return setting.Errorf("Mechanism.Clipping.Bound", "clip: group %q: %v: give a finite number above 0", group, setting.With("Mechanism.Clipping.Bound", q.Initial))
	case !(q.Target > 0 && q.Target < 1):
		return fmt.Errorf("clip: group %q: the target quantile is %v: use a number between 0 and 1", group, q.Target)
	case !(q.Rate > 0) || math.IsInf(q.Rate, 1):
		return fmt.Errorf("clip: group %q: the adaptation rate is %v: use a positive number such as 0.2", group, q.Rate)
	case !(q.Noise > 0) || math.IsInf(q.Noise, 1):
		return fmt.Errorf("clip: group %q: the noise of the count is %v: use a positive number such as a twentieth of the expected lot size", group, q.Noise)
	}
	return nil
}

// nextBound returns the bound after a lot with the given noised Σ(b_i − ½) and expected size. The
// expected size is public; dividing by the realised size would reveal it.
func nextBound(q *clip.Quantile, bound, noised, expectedLot float64) float64 {
	below := noised/expectedLot + 0.5
	return bound * math.Exp(-q.Rate*(below-q.Target))
}

// NoiseMultiplier returns z_Δ, the noise multiplier of the gradient groups together such that
// they and the counts of all adaptive groups cost as much as one query of multiplier total:
//
//	z_Δ = (total⁻² − Σ_g (σ_g/½)⁻²)^(−½)
//
// (Andrew et al. 2021, theorem 1, for several counts). Without adaptive groups it is total.
// If the counts alone cost at least as much as total allows, it returns an error.
func (c *Clipper) NoiseMultiplier(total float64) (float64, error) {
	if !(total > 0) {
		return 0, fmt.Errorf("clip: the noise multiplier is %v: use a positive number", total)
	}
	left := 1 / (total * total)
	adaptive := false
	for i := range c.groups {
		if q := c.groups[i].quantile; q != nil {
			adaptive = true
			z := q.Noise / clip.CountSensitivity
			left -= 1 / (z * z)
		}
	}
	if !adaptive {
		return total, nil
	}
	if !(left > 0) {
		return 0, setting.Errorf("Sampling.Lot", "clip: noise multiplier %v leaves no budget for the gradients after the counts of the adaptive bounds: raise the noise of the counts (dptrain uses a twentieth of the lot size: raise %v or %v)",
			total, setting.Named("Sampling.Lot"), setting.Named("Sampling.Rate"))
	}
	return 1 / math.Sqrt(left), nil
}
