package clip

import (
	"fmt"
	"math"
)

// Quantile is a bound that follows a quantile of the group's norms (Andrew et al.
// 2021, "Differentially Private Learning with Adaptive Clipping"): after each lot
//
//	C ← C · exp(−Rate·(b̃ − Target))
//
// where b̃ is a noised estimate of the fraction of records with norm at most C.
//
// The sum from which b̃ is computed, Σ(b_i − ½) over the lot's records with b_i ∈ {0, 1}, is
// a separate query with sensitivity [CountSensitivity] and noise Noise. It must be in the
// ledger, in addition to the group's query. C depends on the records only through these
// released sums.
type Quantile struct {
	Initial float64 // C of the first lot; the paper starts at 0.1
	Target  float64 // the fraction of records that are not clipped; 0.5 is the median
	Rate    float64 // η, 0.2 in the paper: how far one lot may move C
	Noise   float64 // σ_b of the count; the paper uses a twentieth of the expected lot size
}

// CountSensitivity is the sensitivity of Σ(b_i − ½).
const CountSensitivity = 0.5

// At returns the initial bound. Only a [Clipper] adapts the bound.
func (q Quantile) At(int) float64 { return q.Initial }

func (q Quantile) check(group string) error {
	switch {
	case !(q.Initial > 0) || math.IsInf(q.Initial, 1):
		return fmt.Errorf("clip: group %q: the initial adaptive bound is %v: use a positive finite number", group, q.Initial)
	case !(q.Target > 0 && q.Target < 1):
		return fmt.Errorf("clip: group %q: the target quantile is %v: use a number between 0 and 1", group, q.Target)
	case !(q.Rate > 0) || math.IsInf(q.Rate, 1):
		return fmt.Errorf("clip: group %q: the adaptation rate is %v: use a positive number such as 0.2", group, q.Rate)
	case !(q.Noise > 0) || math.IsInf(q.Noise, 1):
		return fmt.Errorf("clip: group %q: the noise of the count is %v: use a positive number such as a twentieth of the expected lot size", group, q.Noise)
	}
	return nil
}

// next returns the bound after a lot with the given noised Σ(b_i − ½) and expected size. The
// expected size is public; dividing by the realised size would reveal it.
func (q Quantile) next(bound, noised, expectedLot float64) float64 {
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
			z := q.Noise / CountSensitivity
			left -= 1 / (z * z)
		}
	}
	if !adaptive {
		return total, nil
	}
	if !(left > 0) {
		return 0, fmt.Errorf("clip: noise multiplier %v leaves no budget for the gradients after the counts of the adaptive bounds: raise the noise of the counts (dptrain uses a twentieth of the lot size: raise --lot or --rate)", total)
	}
	return 1 / math.Sqrt(left), nil
}
