package clipping

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/clip"
)

// meanRule scales each record to the mean of the norms so far: a record changes the factors of all
// later ones.
type meanRule struct{ sum, count float64 }

func (m *meanRule) Factor(norm, bound float64) float64 {
	m.sum, m.count = m.sum+norm, m.count+1
	return min(bound, m.sum/m.count) / norm
}

// largestRule scales by the largest norm so far.
type largestRule struct{ largest float64 }

func (l *largestRule) Factor(norm, bound float64) float64 {
	l.largest = max(l.largest, norm)
	return bound / l.largest
}

// randomRule uses public randomness, which the guarantee does not know.
type randomRule struct{}

func (randomRule) Factor(norm, bound float64) float64 { return rand.Float64() * bound / norm }

// spyBound is a rule without an effect of its own whose bound follows the largest norm.
type spyBound struct{ largest *float64 }

func (s spyBound) At(int) float64 { return max(1, *s.largest) }
func (s spyBound) Factor(norm, bound float64) float64 {
	*s.largest = max(*s.largest, norm)
	return min(1, bound/norm)
}

// smoothRule is pure.
type smoothRule struct{ gain float64 }

func (s smoothRule) Factor(norm, bound float64) float64 { return s.gain * bound / (bound + norm) }

func TestNewClipper_RefusesRuleWithState(t *testing.T) {
	spy := spyBound{new(float64)}
	for name, test := range map[string]struct {
		rule  clip.Rule
		bound clip.Bound
		want  string
	}{
		"mean":    {&meanRule{}, clip.Constant(1), "clip: group \"gradient\": the rule *clipping.meanRule gives different factors"},
		"largest": {&largestRule{}, clip.Constant(2), "the rule *clipping.largestRule gives different factors"},
		"random":  {randomRule{}, clip.Constant(1), "the rule clipping.randomRule gives different factors"},
		"spy":     {spy, spy, "when the rule clipping.spyBound is called"},
		"pure":    {smoothRule{0.5}, clip.Constant(1), ""},
		"two":     {smoothRule{0.5}, clip.Schedule(func(lot int) float64 { return 1 / float64(1+lot) }), ""},
	} {
		_, err := NewClipper([]string{"w"}, clip.Flat(test.bound, test.rule), Accuracy{})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
