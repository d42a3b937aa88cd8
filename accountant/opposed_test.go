package accountant

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// replacedDelta is δ(ε) of the pair that opposed.go describes, in closed form, by the
// place where the loss, which rises, is ε.
func replacedDelta(rate, shift, epsilon float64) float64 {
	above := func(x, mean float64) float64 { return math.Erfc((x-mean)/math.Sqrt2) / 2 }
	low, high := -50.0, 50.0
	for range 200 {
		x := (low + high) / 2
		one := 1 - rate + rate*math.Exp(shift*x-shift*shift/2)
		if other := 1 - rate + rate*math.Exp(-shift*x-shift*shift/2); math.Log(one/other) < epsilon {
			low = x
		} else {
			high = x
		}
	}
	p := rate*above(low, shift) + (1-rate)*above(low, 0)
	q := rate*above(low, -shift) + (1-rate)*above(low, 0)
	return p - math.Exp(epsilon)*q
}

func replacedLots(rate, noise float64, steps int) ledger.History {
	h := poisson(rate, noise, steps)
	h.Header.Adjacency = ledger.ReplaceOne
	return h
}

func TestOneLotReplaced(t *testing.T) {
	for _, c := range []struct{ rate, noise, epsilon float64 }{
		{.1, 1, 1}, {.5, 2, .3}, {.001, .5, 2}, {.9, .7, 4}, {.3, 5, 0}, {.01, .2, 12}, {.999, 1, 2},
	} {
		want := replacedDelta(c.rate, 1/c.noise, c.epsilon)
		got := deltaOf(t, replacedLots(c.rate, c.noise, 1), c.epsilon, "pld")
		if !(got.Delta >= want*(1-1e-6) && got.LowerBound <= want*(1+1e-6) && got.Delta <= 1.002*got.LowerBound) {
			t.Errorf("%+v: δ is in [%v, %v], want %v", c, got.LowerBound, got.Delta, want)
		}
	}
}

// No two records, whatever their contributions, are told apart better than the pair
// says, at any ε: the theorem, tried with vectors in a plane.
func TestNoRecordsAreWorse(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 62))
	near := 0
	for range 60 {
		rate, shift, epsilon := .02+.96*r.Float64(), .3+2*r.Float64(), 3*r.Float64()-1
		// g and h are in the disc of radius shift, often near the worst places.
		g, h := [2]float64{shift, 0}, [2]float64{-shift, 0}
		if r.IntN(4) > 0 {
			turn := math.Pi * (1 + .3*r.NormFloat64())
			long := shift * math.Sqrt(r.Float64())
			h = [2]float64{long * math.Cos(turn), long * math.Sin(turn)}
			g[0] *= math.Sqrt(r.Float64())
		}
		const step = 1.0 / 16
		delta := 0.0
		for x := -12.0; x < 12; x += step {
			for y := -12.0; y < 12; y += step {
				at := func(c [2]float64) float64 { return math.Exp(c[0]*x + c[1]*y - (c[0]*c[0]+c[1]*c[1])/2) }
				p, q := 1-rate+rate*at(g), 1-rate+rate*at(h)
				delta += max(0, p-math.Exp(epsilon)*q) * math.Exp(-(x*x+y*y)/2) / (2 * math.Pi) * step * step
			}
		}
		want := replacedDelta(rate, shift, epsilon)
		if !(delta <= want*1.001+1e-6) {
			t.Errorf("rate %v, ε %v: %v and %v show δ = %v, the pair %v", rate, epsilon, g, h, delta, want)
		}
		if delta > .99*want {
			near++
		}
	}
	if near < 5 {
		t.Errorf("only %d are near: the test proves little", near)
	}
}

// dp-accounting 0.6.0's PLD accountant, REPLACE_ONE, PoissonSampledDpEvent of a
// GaussianDpEvent, at δ = 1e-5.
func TestReplacedAsPublished(t *testing.T) {
	for _, c := range []struct {
		rate, noise float64
		steps       int
		epsilon     float64
	}{
		{.01, 1, 1000, 2.84345}, {.05, 2.4, 60, 1.23275}, {.1, 4, 100, 1.98986}, {.004, 1.1, 14000, 3.90991},
	} {
		h := replacedLots(c.rate, c.noise, c.steps)
		got := epsilonOf(t, h, 1e-5, "pld")
		if !(got.LowerBound <= c.epsilon*(1+1e-4) && got.Epsilon >= c.epsilon*(1-1e-4) && got.Epsilon <= 1.001*got.LowerBound) {
			t.Errorf("%+v: ε is in [%v, %v]", c, got.LowerBound, got.Epsilon)
		}
		if rdp := epsilonOf(t, h, 1e-5, "rdp"); !(rdp.Epsilon >= got.LowerBound && rdp.Epsilon <= 1.2*got.Epsilon) {
			t.Errorf("%+v: by rdp %v, by pld %v", c, rdp.Epsilon, got.Epsilon)
		}
	}
}

// What many lots of little loss tend to.
func TestReplacedLimit(t *testing.T) {
	for _, c := range []struct {
		rate, noise float64
		steps       int
	}{{.004, 1.1, 14000}, {1e-3, 2, 1e6}, {.02, 4, 20000}} {
		h := replacedLots(c.rate, c.noise, c.steps)
		pld, gdp := epsilonOf(t, h, 1e-5, "pld"), epsilonOf(t, h, 1e-5, "gdp")
		near(t, "gdp", gdp.Epsilon, pld.Epsilon, .05)
	}
}

// The divergence against the midpoint rule, and between those of adding or removing the
// record and of what is proven of any two.
func TestReplacedDivergence(t *testing.T) {
	for _, c := range []struct{ rate, shift, order float64 }{
		{.1, 1, 2}, {.01, 2, 8}, {.5, .5, 1.5}, {.001, .3, 30}, {.3, 4, 1.1}, {.05, 1, 64}, {1e-5, .8, 5}, {.02, 6, 40}, {.1, 6, 2}, {1e-4, .1, 290}, {1e-4, .2, 290},
	} {
		got := rdpOpposed(c.rate, c.shift, c.order)
		const step = 1.0 / 512
		excess, sampled := 0.0, 0.0
		for x := -14 - c.shift; x < c.order*c.shift+14; x += step {
			density := math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) * step
			one := 1 - c.rate + c.rate*math.Exp(c.shift*x-c.shift*c.shift/2)
			other := 1 - c.rate + c.rate*math.Exp(-c.shift*x-c.shift*c.shift/2)
			sampled += density * (math.Pow(one, c.order) - 1 - c.order*(one-1))
			excess += other * density * (math.Pow(one/other, c.order) - 1 - c.order*(one/other-1))
		}
		if want := math.Log1p(excess) / (c.order - 1); !math.IsInf(want, 0) && !math.IsNaN(want) {
			near(t, "the divergence", got, want, 1e-6)
		}
		if least := rdpSampledGaussian(c.rate, c.shift, c.order); !(got >= least*(1-1e-9)) {
			t.Errorf("%+v: %v, less than the %v of adding or removing", c, got, least)
		}
		if want := math.Log1p(sampled) / (c.order - 1); !math.IsInf(want, 0) && !math.IsNaN(want) {
			near(t, "that of adding or removing", rdpSampledGaussian(c.rate, c.shift, c.order), want, 1e-6)
		}
		most := rdpReplacedGaussian(c.rate, 2*c.shift, c.order)
		if !(got <= most*(1+1e-9)) {
			t.Errorf("%+v: %v, more than the %v of any two records", c, got, most)
		}
		excess = 0
		for x := c.shift + step/2; x < 2*max(c.order, 2)*c.shift+14; x += step {
			r := 1 - c.rate + c.rate*math.Exp(2*c.shift*x-2*c.shift*c.shift)
			to := func(power float64) float64 { return math.Exp(power*math.Log(r) - x*x/2) }
			excess += (to(c.order) + to(1-c.order) - to(0) - to(1)) / math.Sqrt(2*math.Pi) * step
		}
		if want := math.Log1p(excess) / (c.order - 1); !math.IsInf(want, 0) && !math.IsNaN(want) {
			near(t, "that of any two records", most, want, 1e-6)
		}
	}
}

// The base loss of a loss is that which has it, up to where its exponential is no number.
func TestBaseLoss(t *testing.T) {
	p := gaussianPair(1)
	for _, p.rate = range []float64{1e-9, .3, 1} {
		for _, y := range []float64{.01, 1, 30, 598, 602, 700, 5000} {
			_, l := p.ratio(y)
			near(t, "the base loss", p.base(l), y, 1e-6)
		}
	}
}

// What P and Q have beyond a place, against the midpoint rule.
func TestPortionAbove(t *testing.T) {
	laplace := laplacePair(2)
	laplace.rate = .3
	gaussian := gaussianPair(1.2)
	gaussian.rate = .3
	for _, p := range []pair{laplace, gaussian, opposedPair(.3, 1.2)} {
		const from, step = .7, 1. / 4096
		want := portion{}
		for x := from + step/2; x < min(p.to, 14); x += step {
			density := math.Exp(p.logDensity(x)) * step
			excess, _ := p.ratio(p.slope*x + p.offset)
			want.add(portion{density * (1 + excess), density})
		}
		got := p.portionAbove(from)
		near(t, "with the record", got.with, want.with, 1e-4)
		near(t, "without it", got.without, want.without, 1e-4)
	}
}

// The curve of a record replaced is on both sides of ε = 0, or else it would not compose
// for any data: of a lot of a fixed size, where it is proven.
func TestReplacedFromBothSides(t *testing.T) {
	for _, c := range []struct {
		event  event
		proven bool
		want   direction
	}{
		{event{rate: .3, laplace: []float64{1}}, false, removing},
		{event{rate: .3, laplace: []float64{1}, replace: true}, false, replacing},
		{event{rate: .3, gaussian: 1, laplace: []float64{1}, replace: true}, false, replacing},
		{event{rate: .3, lattice: []lattice{{2, 2}}, replace: true, fixed: true}, false, removing},
		{event{rate: .3, gaussian: 1, replace: true, fixed: true}, true, replacing},
	} {
		k, err := newComposer([]counted{{c.event, 1}}, c.proven)
		if err != nil {
			t.Fatal(err)
		}
		if p := k.pairOf(c.event, removing, math.Inf(1), 1e-9); p.direction != c.want {
			t.Errorf("%+v, proven: %v: direction %v, want %v", c.event, c.proven, p.direction, c.want)
		}
		if p := k.pairOf(c.event, adding, math.Inf(1), 1e-9); p.direction != max(c.want, adding) {
			t.Errorf("%+v, proven: %v: the other direction is %v", c.event, c.proven, p.direction)
		}
	}
}
