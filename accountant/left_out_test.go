package accountant

import (
	"math"
	"slices"
	"testing"
)

// What an event leaves out is next to nothing as a rule. Were it much, the upper bound
// would still be one, and as much higher.
func TestWhatIsLeftOutIsCharged(t *testing.T) {
	for _, e := range []event{
		{rate: .6, gaussian: 1}, {rate: .6, gaussian: 2}, {rate: .3, gaussian: 1, replace: true},
		{rate: .6, lattice: []lattice{{1, 1}}}, {rate: .7, lattice: []lattice{{2, 2}}}, {rate: .6, lattice: []lattice{{2, 2}}, replace: true},
		{rate: .6, gaussian: 1, laplace: []float64{1}},
	} {
		for _, count := range []int{1, 3} {
			c, err := newComposer([]counted{{e, count}}, false)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range c.directions {
				const epsilon, much = .5, 1e-3
				look := func(share, threshold float64) *curve {
					w := c.whole(d, math.Inf(1), share)
					at := c.target(w, w.tiltForEpsilon(epsilon), epsilon, -5, 1)
					at.limit, at.share, at.threshold = math.Inf(1), share, threshold
					return c.curve(d, at)
				}
				careful, careless, rash := look(1e-30, 1e-30), look(much, 1e-30), look(1e-30, 10*much)
				least := careful.deltaLow(epsilon)
				if got := careless.deltaUp(epsilon); !(got >= least && got <= careful.deltaUp(epsilon)+1.5*much*float64(count)) {
					t.Errorf("%d of %+v from direction %d: δ = %v, want at least %v and not far above", count, e, d, got, least)
				}
				if got := careless.deltaUp(epsilon) - careless.upper.lost.with; !(got < least) {
					t.Errorf("%d of %+v from direction %d: what is left out is not seen: the test proves little", count, e, d)
				}
				if got := rash.deltaUp(epsilon); !(got >= least && rash.deltaLow(epsilon) <= careful.deltaUp(epsilon)) {
					t.Errorf("%d of %+v from direction %d without faint points: δ is in [%v, %v], careful in [%v, %v]", count, e, d, rash.deltaLow(epsilon), got, least, careful.deltaUp(epsilon))
				}
				if got, _ := rash.upper.delta(epsilon); !(got < least) {
					t.Errorf("%d of %+v from direction %d: faint points are not missed: the test proves little", count, e, d)
				}
			}
		}
	}
}

// TestDoubtsWidenTheBracket: whatever a sum may be wrong by, both bounds give way to. Were
// it much, they would by as much.
func TestDoubtsWidenTheBracket(t *testing.T) {
	const epsilon = .5
	c, err := newComposer([]counted{{event{rate: .6, gaussian: 1}, 3}}, false)
	if err != nil {
		t.Fatal(err)
	}
	w := c.whole(removing, math.Inf(1), 1e-30)
	at := c.target(w, w.tiltForEpsilon(epsilon), epsilon, -2, 1)
	at.limit, at.share = epsilon, 1e-30
	look := func(before, after func(*spectrum)) *curve {
		upper, lower := c.compose(c.upper, removing, at)
		for _, s := range []*spectrum{upper, lower} {
			before(s)
			at.evaluate(s)
			after(s)
		}
		return newCurve(upper, lower, at.limit)
	}
	none := func(*spectrum) {}
	plain := look(none, none)
	high, low := plain.deltaUp(epsilon), plain.deltaLow(epsilon)
	scale := math.Exp(plain.upper.log - plain.upper.tilt*epsilon) // of what is summed
	for _, doubt := range []struct {
		name          string
		before, after func(*spectrum)
		up, down      float64 // by at least so much
	}{
		{"rough", func(s *spectrum) { s.rough += .01 }, none, .01 * high, .0099 * low},
		{"slack", func(s *spectrum) { s.slack += .01 }, none, .0099 * peak(plain.upper.tilt) * scale, .029 * peak(plain.upper.tilt) * scale},
		{"rest", none, func(s *spectrum) { s.rest += .01 }, .0099 * scale, .029 * scale}, // of both that the lower one is made of
		{"lost", func(s *spectrum) { s.lost.with += .01 }, none, .0099, 0},
		{"a frequency", none, func(s *spectrum) { s.doubt[0] += .01 }, 1e-5, 1e-5},
		{"what was cut off may lack Q", func(s *spectrum) { s.lost.without += 1e-5 }, none, .99e-5 * math.Exp(epsilon), 0},
	} {
		seen := look(doubt.before, doubt.after)
		if up, down := seen.deltaUp(epsilon)-high, low-seen.deltaLow(epsilon); !(up >= doubt.up && down >= doubt.down) {
			t.Errorf("%s: the upper bound is higher by %v, want %v; the lower one lower by %v, want %v", doubt.name, up, doubt.up, down, doubt.down)
		}
	}
	off, drift := 0.0, 0.0 // by how much the sum of the frequencies may round
	for j, re := range plain.upper.re {
		height := math.Hypot(re, plain.upper.im[j])
		off += unit * height * (16 + float64(plain.upper.band.count))
		drift += unit * height * 4 * plain.upper.step * float64(j)
	}
	if !(plain.upper.off > off && plain.upper.drift >= drift*(1-1e-9)) {
		t.Errorf("a sum is said to be off by %v and %v·ε, and rounds by %v and %v·ε", plain.upper.off, plain.upper.drift, off, drift)
	}
	if !(slices.Max(plain.upper.doubt) > 0 && plain.upper.rough > 0) {
		t.Error("rounding is not counted")
	}
	all := &spectrum{tilt: 1}
	all.add(twin{loss: []float64{0}, mass: []float64{1}, slack: .1, rough: .2}, portion{.3, .1}, 3)
	if !(all.slack >= .3 && all.rough >= .6 && all.stays == stays{3 * math.Log1p(-.3), 3 * math.Log1p(-.1)}) {
		t.Errorf("of three events: %+v", all)
	}
	if got := plain.deltaUp(at.limit * 1.01); got != 1 {
		t.Errorf("above what was looked at δ is at most %v", got)
	}
}

// TestHighFrequencies: what is said of frequencies that are not looked at is no less than
// what they would add.
func TestHighFrequencies(t *testing.T) {
	const epsilon = .5
	c, err := newComposer([]counted{{event{rate: .6, gaussian: 1}, 3}, {event{rate: .2, laplace: []float64{1}}, 2}, {event{rate: 1, gaussian: .2}, 1}}, false)
	if err != nil {
		t.Fatal(err)
	}
	w := c.whole(removing, math.Inf(1), 1e-30)
	at := c.target(w, w.tiltForEpsilon(epsilon), epsilon, -2, 1)
	at.limit = epsilon
	s, _ := c.compose(c.upper, removing, at)
	r := newReach(s)
	least := 0.0
	for i, e := range s.events {
		for from := .1; from < 50; from *= 1.1 {
			for k := range r.bulks[i] {
				bound := r.bulks[i][k].bound(from, from*ladder)
				least = min(least, bound)
				for _, part := range []float64{0, .5, 1} {
					frequency := from * math.Pow(ladder, part)
					re, im := 0.0, 0.0
					for i, m := range e.mass {
						re, im = re+m*math.Cos(frequency*e.loss[i]), im+m*math.Sin(frequency*e.loss[i])
					}
					if size := e.count * math.Log(math.Hypot(re, im)); !(size <= bound+1e-9) {
						t.Fatalf("event %d, from %v, at %v: %v, said to be at most %v", i, from, frequency, size, bound)
					}
				}
			}
		}
	}
	if !(least < -.2) {
		t.Errorf("no bound is below %v: the test proves little", least)
	}
	for _, period := range []float64{3, 30} {
		for _, blur := range []float64{1e-3, 3e-2, 1} {
			for _, enough := range []float64{1e-6, 1e-3, .1} {
				step := 2 * math.Pi / period
				top, rest := r.up(step, blur, enough)
				s.evaluate(band{step, int(50 / math.Sqrt(blur) / step), blur}, 0)
				sum := 0.0
				for j, grow := range s.grow {
					if frequency := step * float64(j); frequency > top {
						size, _ := weight(s.tilt, frequency)
						sum += step / math.Pi * size * math.Exp(grow-blur*frequency*frequency/2)
					}
				}
				if !(sum <= rest && rest <= enough) {
					t.Errorf("period %v, blur %v: above %v frequencies add %v, said to be %v, of %v", period, blur, top, sum, rest, enough)
				}
			}
		}
	}
}
