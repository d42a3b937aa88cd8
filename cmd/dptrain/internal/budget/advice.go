package budget

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// Settings are the public settings of a private run that published runs agree on.
type Settings struct {
	Delta           float64
	Records         int
	Lot             float64 // expected
	Steps           int
	Clip            float64 // bound on the ℓ₂ norm of a record's whole gradient; 0: the bound is of another kind
	NoiseMultiplier float64 // 0 unless the noise is Gaussian
	Parameters      int     // number of weights
	StepLength      float64 // learning rate over 1 - momentum, times the clip bound; 0: another optimizer or bound
}

// The ranges of settings that Advice accepts. docs/guide.md has their sources.
const (
	minClip, maxClip = 0.05, 10
	minSteps         = 100
	maxNoiseRatio    = 20
	minNoise         = 0.5
	minStep, maxStep = 0.01, 10
)

// Advice returns a sentence for each setting outside the range of published runs. It is no
// warning: such a setting may be right, and the guarantee holds with it.
func Advice(s Settings) (advice []string) {
	n := float64(s.Records)
	say := func(format string, values ...any) { advice = append(advice, fmt.Sprintf(format, values...)) }
	if usual := math.Pow(n, -1.1); s.Delta > usual && s.Delta*n < 1 { // a larger δ has a warning
		say("δ = %s is above %s, which is 1 over the number of records to the power 1.1; a smaller δ costs little noise", number.RoundUp(s.Delta), number.Short(usual))
	}
	if s.Clip > 0 && !(s.Clip >= minClip && s.Clip <= maxClip) {
		say("a clip bound of %s is outside %v to %v, the range of published runs; the noise is proportional to it, and a smaller bound needs a larger learning rate", number.Short(s.Clip), minClip, maxClip)
	}
	if root := math.Sqrt(n); s.Lot < root {
		say("lots of %s records are below the root of the number of records, %s, so a pass has %s lots; larger and fewer lots usually give more accuracy for the same ε", number.Short(s.Lot), number.Short(math.Round(root)), number.Short(math.Round(n/s.Lot)))
	}
	if z := s.NoiseMultiplier; z > 0 && z < minNoise {
		say("a noise multiplier of %s is below %v, less than in published runs; ε grows fast there, so prefer fewer lots to less noise", number.Short(z), minNoise)
	}
	if l := s.StepLength; l > 0 && !(l >= minStep && l <= maxStep) {
		say("the learning rate times the clip bound, over 1 - momentum, is %s, outside %v to %v, the range of published runs: it is how far a lot moves the weights at most; change --lr with --clip", number.Short(l), minStep, maxStep)
	}
	if s.Steps < minSteps {
		say("%d lots are few; private training usually gains from more lots at the same ε", s.Steps)
	} else if epochs := float64(s.Steps) * s.Lot / n; epochs < 1 {
		say("all lots together are %s of a pass over the data; private training usually gains from several passes at the same ε", number.Short(epochs))
	}
	if ratio := s.NoiseMultiplier * math.Sqrt(float64(s.Parameters)) / s.Lot; ratio > maxNoiseRatio {
		say("the noise of a lot is about %s times as long as a mean gradient at the clip bound; use larger lots, a smaller network, or more ε", number.Short(ratio))
	}
	return advice
}
