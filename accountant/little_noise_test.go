package accountant

import (
	"math"
	"testing"
)

// Of 100 lots at rate 0.01 a record is in some lot with chance 0.63. With next to no noise
// the loss of one such lot alone is near (S/σ)²/2, so at δ = 0.4 an ε is no smaller, but
// for a few standard deviations of S/σ.
func TestLittleNoise(t *testing.T) {
	t.Parallel()
	for _, adjacency := range []Adjacency{AddRemove, ReplaceOne} {
		for _, noise := range []float64{1e-4, 1e-3, .01, .02, .03, .05} {
			if testing.Short() && noise == .01 {
				continue
			}
			shift := 1 / noise
			if adjacency == ReplaceOne {
				shift *= 2
			}
			h := poisson(.01, noise, 100)
			h.Header.Adjacency = adjacency
			got := epsilonOf(t, h, .4, "pld")
			if least := shift*shift/2 - 3*shift - 10; got.Epsilon < least || got.Lower > got.Epsilon {
				t.Errorf("%s, noise %v: %+v, at least %v was spent", adjacency, noise, got, least)
			}
			if noise >= .02 && adjacency == AddRemove && got.Epsilon > 1.005*got.Lower {
				t.Errorf("%s, noise %v: the bracket [%v, %v] is wide", adjacency, noise, got.Lower, got.Epsilon)
			}
			if math.IsInf(got.Epsilon, 1) {
				t.Errorf("%s, noise %v: ε is infinite", adjacency, noise)
			}
			if at := deltaOf(t, h, shift*shift/2-3*shift-10, "pld"); at.Delta < .4 {
				t.Errorf("%s, noise %v: δ(%v) is %v, at least 0.4 was spent", adjacency, noise, at.Epsilon, at.Delta)
			}
		}
	}
}
