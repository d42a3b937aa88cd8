package gaussian

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The closed form agrees with math.Erfc where the latter does not cancel.
func TestDelta_ClosedForm(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		shift, epsilon := math.Pow(10, -3+5*r.Float64()), 10*r.Float64()
		first := math.Erfc((epsilon/shift-shift/2)*math.Sqrt2/2) / 2
		second := math.Exp(epsilon) * math.Erfc((epsilon/shift+shift/2)*math.Sqrt2/2) / 2
		got := Delta(shift, epsilon)
		if want := first - second; want > 1e-3*first && first > 1e-40 {
			if !(math.Abs(got-want) <= 1e-10*want) {
				t.Errorf("shift %v, ε %v: got %.12g, want %.12g", shift, epsilon, got, want)
			}
		}
	}
}
