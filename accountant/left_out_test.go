package accountant

import (
	"math"
	"testing"
)

// What an event leaves out is next to nothing as a rule. Were it much, the upper bound
// would still be one, and as much higher.
func TestWhatIsLeftOutIsCharged(t *testing.T) {
	for _, e := range []event{
		{rate: .6, gaussian: 1}, {rate: .6, gaussian: 2}, {rate: .3, gaussian: 1, replace: true},
		{rate: .6, lattice: []lattice{{1, 1}}}, {rate: .7, lattice: []lattice{{2, 2}}}, {rate: .6, lattice: []lattice{{2, 2}}, replace: true},
	} {
		for _, count := range []int{1, 3} {
			c, err := newComposer(spending{events: []counted{{e, count}}})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range c.directions {
				const epsilon, much = .5, 1e-3
				look := func(share float64) *curve {
					w := c.whole(d, math.Inf(1), share)
					at := c.target(w, w.tiltForEpsilon(epsilon), epsilon, -5, 1)
					at.limit, at.share = math.Inf(1), share
					return c.curve(d, at)
				}
				careful, careless := look(1e-30), look(much)
				least := careful.deltaLow(epsilon)
				if got := careless.deltaUp(epsilon); !(got >= least && got <= careful.deltaUp(epsilon)+1.5*much*float64(count)) {
					t.Errorf("%d of %+v from direction %d: δ = %v, want at least %v and not far above", count, e, d, got, least)
				}
				if got := careless.deltaUp(epsilon) - careless.upper.lost.with; !(got < least) {
					t.Errorf("%d of %+v from direction %d: what is left out is not seen: the test proves little", count, e, d)
				}
			}
		}
	}
}
