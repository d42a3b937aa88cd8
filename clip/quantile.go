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
// The sum behind b̃, Σ(b_i − ½) over the lot's records with b_i ∈ {0, 1}, is a
// query of its own: its sensitivity is [CountSensitivity], its noise is Noise,
// and it belongs in the ledger beside the group's. C depends on the records only
// through these released sums.
type Quantile struct {
	Initial float64 // C of the first lot; the paper starts at 0.1
	Target  float64 // the fraction of records that should not be clipped; 0.5 is the median
	Rate    float64 // η, the paper's 0.2: how far one lot may move C
	Noise   float64 // σ_b of the count; the paper's choice is a twentieth of the expected lot
}

// CountSensitivity is the most that a record can move Σ(b_i − ½).
const CountSensitivity = 0.5

// At is the initial bound: a Quantile moves only in a [Clipper].
func (q Quantile) At(int) float64 { return q.Initial }

func (q Quantile) check(group string) error {
	switch {
	case !(q.Initial > 0) || math.IsInf(q.Initial, 1):
		return fmt.Errorf("clip: group %q: the adaptive bound starts at %v, want a positive finite number", group, q.Initial)
	case !(q.Target > 0 && q.Target < 1):
		return fmt.Errorf("clip: group %q: target quantile %v, want a number between 0 and 1", group, q.Target)
	case !(q.Rate > 0) || math.IsInf(q.Rate, 1):
		return fmt.Errorf("clip: group %q: adaptation rate %v, want a positive number such as 0.2", group, q.Rate)
	case !(q.Noise > 0) || math.IsInf(q.Noise, 1):
		return fmt.Errorf("clip: group %q: noise %v on the count, want a positive number such as a twentieth of the expected lot", group, q.Noise)
	}
	return nil
}

// next is the bound after a lot whose noised Σ(b_i − ½) and expected size are
// given. The size is the public one: dividing by what was drawn would tell it.
func (q Quantile) next(bound, noised, expectedLot float64) float64 {
	below := noised/expectedLot + 0.5
	return bound * math.Exp(-q.Rate*(below-q.Target))
}

// NoiseMultiplier is z_Δ, what is left for the gradient groups together when the
// counts of all adaptive groups and the gradients are to cost as much as one
// query of multiplier total:
//
//	z_Δ = (total⁻² − Σ_g (σ_g/½)⁻²)^(−½)
//
// (Andrew et al. 2021, theorem 1, for several counts). Without adaptive groups it
// is total. It fails if the counts alone spend more than total allows.
func (c *Clipper) NoiseMultiplier(total float64) (float64, error) {
	if !(total > 0) {
		return 0, fmt.Errorf("clip: noise multiplier %v, want a positive number", total)
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
		return 0, fmt.Errorf("clip: noise multiplier %v leaves nothing for the gradients beside the counts of the adaptive bounds; raise the noise of the counts (dptrain's is a twentieth of the lot: raise --lot or --rate)", total)
	}
	return 1 / math.Sqrt(left), nil
}
