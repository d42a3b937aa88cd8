package accountant

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
)

func truncatedLots(records int, rate float64, lot int, noise float64, steps int, adjacency ledger.Adjacency) ledger.History {
	return Plan{Sampling: ledger.Sampling{Policy: ledger.Truncated, Rate: rate, LotSize: lot, Records: records}, Steps: steps, Noise: noise, Adjacency: adjacency}.History()
}

// planeMixture is the sum of weighted unit Gaussians in the plane.
type planeMixture map[[2]float64]float64

func (m planeMixture) density(x, y float64) float64 {
	sum := 0.0
	for at, weight := range m {
		sum += weight * math.Exp(-((x-at[0])*(x-at[0])+(y-at[1])*(y-at[1]))/2)
	}
	return sum / (2 * math.Pi)
}

// truncatedRelease is the distribution of the noised sum of a truncated lot, by a list of all
// drawn sets and all sets that the lot may then be.
func truncatedRelease(data [][2]float64, rate float64, most int) planeMixture {
	m := planeMixture{}
	n := len(data)
	for drawn := range 1 << n {
		size := bits.OnesCount(uint(drawn))
		probability := math.Pow(rate, float64(size)) * math.Pow(1-rate, float64(n-size))
		var sums [][2]float64
		for lot := range 1 << n {
			if lot&^drawn != 0 || bits.OnesCount(uint(lot)) != min(size, most) {
				continue
			}
			var sum [2]float64
			for i, v := range data {
				if lot>>i&1 == 1 {
					sum[0], sum[1] = sum[0]+v[0], sum[1]+v[1]
				}
			}
			sums = append(sums, sum)
		}
		for _, sum := range sums {
			m[sum] += probability / float64(len(sums))
		}
	}
	return m
}

// planeDivergence is the hockey-stick divergence of two mixtures, by the midpoint rule.
func planeDivergence(p, q planeMixture, epsilon float64) float64 {
	const reach, step = 14, 0.14
	sum := 0.0
	for x := -reach + step/2; x < reach; x += step {
		for y := -reach + step/2; y < reach; y += step {
			if d := p.density(x, y) - math.Exp(epsilon)*q.density(x, y); d > 0 {
				sum += d
			}
		}
	}
	return sum * step * step
}

// The accounted δ bounds the exact divergence of truncated lots of few records, for any
// contributions, in both directions and under each adjacency. Data near the worst case come near
// it.
func TestTruncated_Dominates(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(71, 72))
	closest := map[ledger.Adjacency]float64{}
	cases := 75
	if testing.Short() {
		cases = 24
	}
	for i := range cases {
		adjacency := []ledger.Adjacency{ledger.ZeroOut, ledger.ReplaceOne, ledger.AddRemove}[i%3]
		records, most := 2+r.IntN(3), 1+r.IntN(2)
		rate, shift, epsilon := .05+.9*r.Float64(), .3+1.7*r.Float64(), 1.5*r.Float64()
		disc := func(turn float64) [2]float64 {
			turn += .2 * r.NormFloat64()
			long := shift
			if r.IntN(4) == 0 {
				long *= math.Sqrt(r.Float64())
			}
			return [2]float64{long * math.Cos(turn), long * math.Sin(turn)}
		}
		// The other records oppose the record, in all cases but a quarter.
		turn := math.Pi
		if r.IntN(4) == 0 {
			turn = 2 * math.Pi * r.Float64()
		}
		one := [][2]float64{disc(0)}
		for range records - 1 {
			one = append(one, disc(turn))
		}
		other := append([][2]float64{{0, 0}}, one[1:]...)
		switch adjacency {
		case ledger.ReplaceOne:
			other[0] = disc(math.Pi)
		case ledger.AddRemove:
			other = one[1:]
		}
		declared := records
		if adjacency == ledger.AddRemove {
			declared += r.IntN(3) // fewer records than declared
		}
		p, q := truncatedRelease(one, rate, most), truncatedRelease(other, rate, most)
		want := max(planeDivergence(p, q, epsilon), planeDivergence(q, p, epsilon))
		got := deltaOf(t, truncatedLots(declared, rate, most, 1/shift, 1, adjacency), epsilon, "pld").Delta
		if want > got*(1+1e-3)+1e-6 {
			t.Errorf("%s, %d records (%d declared), at most %d, rate %v, shift %v, ε = %v: δ = %v, and %v and %v differ by %v", adjacency, records, declared, most, rate, shift, epsilon, got, one, other, want)
		}
		closest[adjacency] = max(closest[adjacency], want/got)
	}
	for adjacency, ratio := range closest {
		if ratio < .7 {
			t.Errorf("%s: no data come nearer than %.3g to the accounted δ: the test is not conclusive", adjacency, ratio)
		}
	}
}

// Values of dp-accounting 0.6.0 (PLDAccountant, TruncatedSubsampledGaussianDpEvent, δ = 1e-5,
// discretisation 1e-4), which uses a looser pair for lots that are truncated: twice the
// sensitivity with a record replaced. Its value is at least ours, and about equal where few
// lots are truncated.
func TestTruncated_PublishedValues(t *testing.T) {
	for _, c := range []struct {
		records, lot   int
		rate, noise    float64
		steps          int
		zeroOut, other float64 // under REPLACE_SPECIAL and REPLACE_ONE
	}{
		{60000, 400, 256. / 60000, 1.1, 1000, 0.5987026622617477, 0.9687478572806099},
		{60000, 330, 256. / 60000, 1.1, 1000, 0.5999587978261014, 0.9694727388474672},
		{60000, 300, 256. / 60000, 1.1, 1000, 1.7340322516361433, 1.8061603615878814},
		{60000, 256, 256. / 60000, 1.1, 1000, 4.456216426368237, 4.490004040300622},
		{60000, 50, 256. / 60000, 1.1, 1000, 1.96215258410741, 1.96215258410741},
		{1000, 110, .1, .7, 50, 26.868375019140284, 28.12516115948866},
		{2000, 30, .01, .4, 20, 21.461600670784748, 21.5153710909809},
		{60000, 640, .01, 4, 10000, 1.2883605630929431, 2.1609495251298694},
	} {
		for _, a := range []struct {
			adjacency ledger.Adjacency
			published float64
		}{{ledger.ZeroOut, c.zeroOut}, {ledger.ReplaceOne, c.other}} {
			got := epsilonOf(t, truncatedLots(c.records, c.rate, c.lot, c.noise, c.steps, a.adjacency), 1e-5, "pld")
			poisson := replacedLots(c.rate, c.noise, c.steps)
			poisson.Header.Adjacency = a.adjacency
			without := epsilonOf(t, poisson, 1e-5, "pld")
			if got.LowerBound > a.published*(1+3e-4) || got.Epsilon < without.LowerBound {
				t.Errorf("%s %+v: ε is in [%v, %v], published %v, without truncation %v", a.adjacency, c, got.LowerBound, got.Epsilon, a.published, without.Epsilon)
			}
			if c.lot >= 330 && c.records == 60000 && c.steps == 1000 && got.Epsilon < a.published*(1-1e-3) {
				t.Errorf("%s %+v: ε = %v, published %v", a.adjacency, c, got.Epsilon, a.published)
			}
		}
	}
}

// Every accountant that gives a bound gives at least the lower bound of pld.
func TestTruncated_Accountants(t *testing.T) {
	for _, adjacency := range []ledger.Adjacency{ledger.ZeroOut, ledger.ReplaceOne, ledger.AddRemove} {
		for _, lot := range []int{5, 20, 29, 60} {
			h := truncatedLots(1000, .02, lot, 1.5, 40, adjacency)
			exact := epsilonOf(t, h, 1e-5, "pld")
			for _, name := range Names() {
				g := epsilonOf(t, h, 1e-5, name)
				if !g.Approximate && g.Epsilon < exact.LowerBound {
					t.Errorf("%s, lots of at most %d: %s gives ε = %v, pld at least %v", adjacency, lot, name, g.Epsilon, exact.LowerBound)
				}
			}
			back := deltaOf(t, h, exact.Epsilon, "pld")
			if !(back.LowerBound <= 1e-5 && back.Delta >= 1e-5*(1-1e-2)) {
				t.Errorf("%s, lots of at most %d: δ(ε(1e-5)) is in [%v, %v]", adjacency, lot, back.LowerBound, back.Delta)
			}
		}
	}
}

// Lots that are never truncated cost what Poisson lots cost.
func TestTruncated_NeverTruncatedIsPoisson(t *testing.T) {
	for _, name := range Names() {
		got := epsilonOf(t, truncatedLots(500, .1, 500, 2, 30, ledger.ZeroOut), 1e-5, name)
		want := epsilonOf(t, poisson(.1, 2, 30), 1e-5, name)
		if got.Epsilon != want.Epsilon {
			t.Errorf("%s: ε = %v, for Poisson lots %v", name, got.Epsilon, want.Epsilon)
		}
	}
}

// The default is the smallest B with a tail of at most 1e-10, and does not change ε.
func TestDefaultMaxLot_IsSmallest(t *testing.T) {
	for _, c := range []struct {
		records, want int
		rate          float64
	}{
		// P(Bin(n, q) > B) ≤ 1e-10 by scipy.stats.binom.sf, searched over all B.
		{60000, 364, 256. / 60000}, {60000, 1232, 1024. / 60000}, {1000, 165, .1}, {10, 10, .5}, {100, 12, .01}, {1, 1, .3}, {2000000, 1097, .00045},
	} {
		if got := DefaultMaxLot(c.rate, c.records); got != c.want {
			t.Errorf("%d records at rate %v: %d, want %d", c.records, c.rate, got, c.want)
		}
	}
	const records, rate = 60000, 256. / 60000
	for _, name := range []string{"pld", "rdp", "moments"} {
		got := epsilonOf(t, truncatedLots(records, rate, DefaultMaxLot(rate, records), 1.1, 10000, ledger.ZeroOut), 1e-6, name)
		want := epsilonOf(t, poisson(rate, 1.1, 10000), 1e-6, name)
		if !(math.Abs(got.Epsilon-want.Epsilon) < 4e-4*want.Epsilon) {
			t.Errorf("%s: ε = %v, for Poisson lots %v", name, got.Epsilon, want.Epsilon)
		}
	}
}
