package accountant

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/internal/pld"
	"github.com/dptrain/dptrain/accountant/ledger"
)

func epsilonOf(t *testing.T, h ledger.History, delta float64, accountant string) Guarantee {
	t.Helper()
	answer, err := Epsilon(h, delta, accountant)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func deltaOf(t *testing.T, h ledger.History, epsilon float64, accountant string) Guarantee {
	t.Helper()
	answer, err := Delta(h, epsilon, accountant)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestPLD_PublishedEpsilon(t *testing.T) {
	for _, c := range []struct {
		rate, noise float64
		steps       int
		delta, want float64
		tolerance   float64
	}{
		{.01, .7, 120, 1e-5, 2.4612381, 1e-3},
		{.01, .35, 120, 1e-5, 18.6977407, 1e-3},
		{1, .7, 2, 1e-5, 10.1224946, 1e-8},
		{1, .35, 2, 1e-5, 24.7160779, 1e-8},
		{150. / 60000, 1.3, 6000, 1e-5, .6401, 1e-3},
		{1e-3, 1, 30000, 1e-7, 1.0982, 1e-3},
		{1024. / 50000, 4, 10000, 1e-5, 2.09245, 1e-3},
		{.04, 1.5, 2249, 1e-5, 6.7670, 1e-3},
		{.04, 1.28997, 2000, 1e-5, 8, 1e-3},
		{.01, .67379294682, 1, 1e-5, 1, 1e-3},
		{.001, 3.20956502598 / 6, 25, 1e-5, 1, 1e-3},
	} {
		got := epsilonOf(t, poisson(c.rate, c.noise, c.steps), c.delta, "pld")
		near(t, "epsilon", got.Epsilon, c.want, c.tolerance)
		if got.LowerBound > c.want*(1+1e-4) || got.Epsilon < c.want*(1-5e-4) {
			t.Errorf("%+v: the bracket [%v, %v] misses it", c, got.LowerBound, got.Epsilon)
		}
	}
}

func TestPLD_PublishedDelta(t *testing.T) {
	near(t, "three Gaussians", deltaOf(t, poisson(1, math.Sqrt(3), 3), 1, "pld").Delta, .126936, 1e-5)
	near(t, "three sampled Gaussians", deltaOf(t, poisson(.2, .5, 3), 1, "pld").Delta, .155933, 1e-3)
	near(t, "one Gaussian", deltaOf(t, poisson(1, 10, 1), .1, "pld").Delta, .008751768145810, 1e-12)
	near(t, "epsilon 0", deltaOf(t, poisson(1, .5, 1), 0, "pld").Delta, .6826894921, 1e-9)
	near(t, "sigma", epsilonOf(t, poisson(1, 4.22467888932684, 1), 1e-6, "pld").Epsilon, 1, 1e-12)
}

func laplaceLots(rate, scale float64, steps int) ledger.RepeatedLot {
	return ledger.RepeatedLot{Lot: ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: rate}, Queries: []ledger.Query{{Group: "all", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: scale}}}, Count: steps}
}

func TestPLD_PublishedLaplace(t *testing.T) {
	h := ledger.History{Lots: []ledger.RepeatedLot{laplaceLots(1, 1, 3), laplaceLots(1, 2, 2)}}
	near(t, "five Laplaces", epsilonOf(t, h, 1e-14, "pld").Epsilon, 4, 1e-9)
	h = ledger.History{Lots: []ledger.RepeatedLot{laplaceLots(.2, .5, 3)}}
	near(t, "sampled Laplaces", epsilonOf(t, h, 1e-14, "pld").Epsilon, 2.46964, 1e-5)
	for steps, want := range map[int]float64{20: 13.6, 500: 71.0} {
		plan := Plan{Sampling: ledger.Sampling{Policy: ledger.FullBatch}, Steps: steps, Groups: []ledger.Query{{Group: "all", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: 1}}}
		scale, err := CalibrateNoise(plan, 1, 1e-4, "pld")
		if err != nil {
			t.Fatal(err)
		}
		if !(math.Abs(scale-want) <= .1) {
			t.Errorf("scale for %d Laplaces: got %v, want %v", steps, scale, want)
		}
	}
}

func fixedLots(noise float64, steps int) ledger.History {
	h := poisson(1, noise, steps)
	h.Lots[0].Lot.Sampling = ledger.Sampling{Policy: ledger.FixedSize, LotSize: 1024, Records: 50000}
	return h
}

func TestFixedSize_PublishedAndProven(t *testing.T) {
	h := fixedLots(4, 10000)
	pld, rdp := epsilonOf(t, h, 1e-5, "pld"), epsilonOf(t, h, 1e-5, "rdp")
	near(t, "pld", pld.Published, 4.89011, 1e-3)
	near(t, "rdp", rdp.Published, 4.984953, 1e-6)
	if rdp.Order != 5 || pld.Adjacency != ledger.ReplaceOne || rdp.Adjacency != ledger.ReplaceOne {
		t.Errorf("got %+v and %+v", pld, rdp)
	}
	for _, a := range []Guarantee{pld, rdp} {
		near(t, a.Accountant+", proven", a.Epsilon, 5.818, 1e-3)
		if !strings.Contains(a.Note, "The epsilon 5.81") || !strings.Contains(a.Note, "the published epsilon 4.") || a.Approximate {
			t.Errorf("the note of %s does not give both figures: %s", a.Accountant, a.Note)
		}
		if d := deltaOf(t, h, 4, a.Accountant); !(d.Delta > d.Published && d.Published > 0) || !strings.Contains(d.Note, "is proven for any data") {
			t.Errorf("the δ of %s is %+v", a.Accountant, d)
		}
	}
	if whole := epsilonOf(t, h, 1e-5, "zcdp"); whole.Published != 0 || strings.Contains(whole.Note, "any data") {
		t.Errorf("zcdp, which holds for any data, returns %+v", whole)
	}
	// The same pair.
	near(t, "Poisson at half the noise", epsilonOf(t, poisson(1024./50000, 2, 10000), 1e-5, "pld").Epsilon, pld.Published, 1e-12)
	// Only the ε of an approximation is marked as one, and no accountant that is not marked
	// returns less than what is proven.
	for _, name := range Names() {
		if a := epsilonOf(t, fixedLots(2, 3), 1e-5, name); a.Approximate != (name == "gdp") || deltaOf(t, fixedLots(2, 3), 1, name).Approximate != a.Approximate {
			t.Errorf("%s: %+v", name, a)
		}
	}

	// Little noise, where the published Rényi bound is below the loss itself.
	h = fixedLots(.8, 100)
	if pld, rdp := epsilonOf(t, h, 1e-5, "pld"), epsilonOf(t, h, 1e-5, "rdp"); rdp.Epsilon < pld.Epsilon {
		t.Errorf("rdp %v is below pld %v", rdp.Epsilon, pld.Epsilon)
	}
	if pld, rdp := deltaOf(t, h, 12, "pld"), deltaOf(t, h, 12, "rdp"); rdp.Delta < pld.Delta {
		t.Errorf("δ by rdp %v is below that by pld %v", rdp.Delta, pld.Delta)
	}
}

// The published ε for lots of a fixed size is not a bound for any data; the proven ε is. The
// example has lots of 95 of 100 records, two lots, and noise as large as the bound. All other
// records add 0 to the sum, the two candidates +S and -S, so a lot releases from N(0, 1) or
// N(±1, 1). δ is summed over a grid of the releases of both lots.
func TestFixedSize_OppositeCandidatesExceedPublished(t *testing.T) {
	const rate, epsilon, step = .95, .1, .01
	var with, against []float64
	for x := -9.0; x < 10; x += step {
		at := func(mean float64) float64 {
			return step * math.Exp(-(x-mean)*(x-mean)/2) / math.Sqrt(2*math.Pi)
		}
		with, against = append(with, (1-rate)*at(0)+rate*at(1)), append(against, (1-rate)*at(0)+rate*at(-1))
	}
	delta := 0.0
	for i := range with {
		for k := range with {
			delta += max(0, with[i]*with[k]-math.Exp(epsilon)*against[i]*against[k])
		}
	}
	h := poisson(1, 1, 2)
	h.Lots[0].Lot.Sampling = ledger.Sampling{Policy: ledger.FixedSize, LotSize: 95, Records: 100}
	claim := deltaOf(t, h, epsilon, "pld")
	if claim.Published > delta*.995 {
		t.Errorf("published δ %v is not below %v: update fixed_size.go", claim.Published, delta)
	}
	if claim.Delta < delta {
		t.Errorf("the claimed δ %v is below %v", claim.Delta, delta)
	}
	s, err := dpevent.FromHistory(h)
	if err != nil {
		t.Fatal(err)
	}
	if proven, _, err := pld.Delta(s.Events, true, epsilon); err != nil || proven < delta {
		t.Errorf("proven δ %v is below %v (%v)", proven, delta, err)
	}
}

func TestHistoricalAccountants_PublishedValues(t *testing.T) {
	h := poisson(.01, 4, 10000)
	near(t, "moments", epsilonOf(t, h, 1e-5, "moments").Epsilon, 1.26, 2e-3)
	near(t, "strong", epsilonOf(t, h, 1e-5, "strong").Epsilon, 9.34, 2e-3)
	near(t, "gdp", epsilonOf(t, poisson(.04, 1.5, 2249), 1e-5, "gdp").Epsilon, 6.599821, 1e-5)
	pld := epsilonOf(t, h, 1e-5, "pld").LowerBound
	for _, name := range []string{"rdp", "moments", "tcdp", "zcdp", "strong", "naive"} {
		if got := epsilonOf(t, h, 1e-5, name).Epsilon; got < pld {
			t.Errorf("%s returns %v, but at least %v was spent", name, got, pld)
		}
	}
	unsampled := poisson(1, 20, 10)
	exact := epsilonOf(t, unsampled, 1e-6, "pld").Epsilon
	for _, name := range Names() {
		if got := epsilonOf(t, unsampled, 1e-6, name).Epsilon; got < exact*(1-1e-12) {
			t.Errorf("%s returns %v, but %v was spent", name, got, exact)
		}
	}
}

// The test samples privacy losses. The estimate of δ must be within 5 standard errors of the
// interval (probability of failure 1/1.7e6; the seed is fixed).
func TestPLD_MonteCarlo(t *testing.T) {
	t.Parallel()
	const draws, steps, rate, noise, epsilon = 200000, 20, .1, .9, 1.0
	r := rand.New(rand.NewPCG(5, 6))
	sum, squares := 0.0, 0.0
	for range draws {
		loss := 0.0
		for range steps {
			x := r.NormFloat64()
			if r.Float64() < rate {
				x += 1 / noise
			}
			loss += math.Log1p(rate * math.Expm1(x/noise-1/(2*noise*noise)))
		}
		v := max(0, -math.Expm1(epsilon-loss))
		sum += v
		squares += v * v
	}
	mean := sum / draws
	margin := 5 * math.Sqrt((squares/draws-mean*mean)/draws)
	got := deltaOf(t, poisson(rate, noise, steps), epsilon, "pld")
	if mean > got.Delta+margin || mean < got.LowerBound-margin {
		t.Errorf("drawn %v ± %v, computed [%v, %v]", mean, margin, got.LowerBound, got.Delta)
	}
}

func TestEpsilon_Monotone(t *testing.T) {
	t.Parallel()
	cases := 60
	if testing.Short() {
		cases = 10
	}
	r := rand.New(rand.NewPCG(7, 8))
	for range cases {
		rate, noise := math.Pow(10, -3*r.Float64()), .5+4*r.Float64()
		steps, delta := 1+r.IntN(5000), math.Pow(10, -3-6*r.Float64())
		for _, name := range []string{"pld", "rdp"} {
			base := epsilonOf(t, poisson(rate, noise, steps), delta, name)
			if base.LowerBound > base.Epsilon {
				t.Errorf("the lower bound is above: %+v", base)
			}
			for what, more := range map[string]float64{
				"less noise":  epsilonOf(t, poisson(rate, noise*.97, steps), delta, name).Epsilon,
				"higher rate": epsilonOf(t, poisson(min(1, rate*1.03), noise, steps), delta, name).Epsilon,
				"more steps":  epsilonOf(t, poisson(rate, noise, steps+1+steps/20), delta, name).Epsilon,
				"less delta":  epsilonOf(t, poisson(rate, noise, steps), delta*.8, name).Epsilon,
			} {
				if more < base.Epsilon*(1-1e-9) && rate < .97 {
					t.Errorf("%s: %s lowers epsilon from %v to %v (rate %v noise %v steps %d delta %v)", name, what, base.Epsilon, more, rate, noise, steps, delta)
				}
			}
			if rdp := epsilonOf(t, poisson(rate, noise, steps), delta, "rdp").Epsilon; rdp < base.LowerBound {
				t.Errorf("rdp %v is below what was spent, %v", rdp, base.LowerBound)
			}
		}
	}
}

func TestEpsilon_Groups(t *testing.T) {
	lot := ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: .02}, Queries: []ledger.Query{{Group: "a", Mechanism: ledger.Gaussian, Sensitivity: 2, Noise: 6}, {Group: "b", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 4}}}
	z := 1 / math.Sqrt(4./36+1./16)
	got := epsilonOf(t, ledger.History{Lots: []ledger.RepeatedLot{{Lot: lot, Count: 500}}}, 1e-5, "pld").Epsilon
	// Each shift is rounded up, and the search for ε ends at 1e-10.
	near(t, "two groups", got, epsilonOf(t, poisson(.02, z, 500), 1e-5, "pld").Epsilon, 1e-9)

	// Gaussian and Laplace together: more than either alone, less than both as if
	// each had its own lots, and no more than rdp.
	both := ledger.Lot{Sampling: lot.Sampling, Queries: []ledger.Query{{Group: "a", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 2}, {Group: "b", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: 4}}}
	mixed := epsilonOf(t, ledger.History{Lots: []ledger.RepeatedLot{{Lot: both, Count: 500}}}, 1e-5, "pld")
	gauss := epsilonOf(t, ledger.History{Lots: []ledger.RepeatedLot{{Lot: ledger.Lot{Sampling: lot.Sampling, Queries: both.Queries[:1]}, Count: 500}}}, 1e-5, "pld")
	rdp := epsilonOf(t, ledger.History{Lots: []ledger.RepeatedLot{{Lot: both, Count: 500}}}, 1e-5, "rdp")
	if !(mixed.LowerBound > gauss.Epsilon && mixed.Epsilon < rdp.Epsilon && mixed.Epsilon < 1.0005*mixed.LowerBound) {
		t.Errorf("mixed %+v, Gaussian alone %v, rdp %v", mixed, gauss.Epsilon, rdp.Epsilon)
	}

	// A discrete Gaussian with much noise is close to a Gaussian.
	discrete := ledger.Lot{Sampling: lot.Sampling, Queries: []ledger.Query{{Group: "a", Mechanism: ledger.DiscreteGaussian, Sensitivity: 4, Noise: 40}}}
	got = epsilonOf(t, ledger.History{Lots: []ledger.RepeatedLot{{Lot: discrete, Count: 500}}}, 1e-5, "pld").Epsilon
	near(t, "discrete Gaussian", got, epsilonOf(t, poisson(.02, 10, 500), 1e-5, "pld").Epsilon, 3e-3)
}

func TestEpsilon_HeterogeneousLots(t *testing.T) {
	// Splitting a run into entries changes the result by rounding only.
	whole := epsilonOf(t, poisson(.01, 1.2, 3000), 1e-6, "pld")
	parts := poisson(.01, 1.2, 1000)
	parts.Lots = append(parts.Lots, ledger.RepeatedLot{Lot: parts.Lots[0].Lot, Count: 2000})
	near(t, "two entries", epsilonOf(t, parts, 1e-6, "pld").Epsilon, whole.Epsilon, 1e-12)
	// The cost of two phases is between the costs of runs with one of the phases only.
	parts.Lots[1] = poisson(.01, 1.6, 2000).Lots[0]
	both := epsilonOf(t, parts, 1e-6, "pld")
	least := epsilonOf(t, poisson(.01, 1.6, 3000), 1e-6, "pld")
	if both.Epsilon >= whole.Epsilon || both.LowerBound <= least.LowerBound || both.Epsilon > 1.0005*both.LowerBound {
		t.Errorf("phases %+v, between %v and %v", both, least, whole)
	}
}

func TestPLD_Schedule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lots       int
		rateGrows  float64
		wide       float64        // that the bracket may be
		least, top ledger.History // between which it is
	}{
		{300, 1, 1.003, poisson(.005, 2, 300), poisson(.005, 1, 300)},
		{1500, 1, 1.004, poisson(.005, 2, 1500), poisson(.005, 1, 1500)}, // rounded
		{1500, 3, 1.008, poisson(.005, 2, 1500), poisson(.015, 1, 1500)},
	} {
		if testing.Short() && c.lots > 300 {
			continue
		}
		var h ledger.History
		for i := range c.lots {
			part := float64(i) / float64(c.lots)
			h.Lots = append(h.Lots, poisson(.005*math.Pow(c.rateGrows, part), 1+part, 1).Lots...)
		}
		got := epsilonOf(t, h, 1e-5, "pld")
		low, high := epsilonOf(t, c.least, 1e-5, "pld").Epsilon, epsilonOf(t, c.top, 1e-5, "pld").Epsilon
		if got.Epsilon <= low || got.Epsilon >= high || got.Epsilon > c.wide*got.LowerBound {
			t.Errorf("%+v: schedule %+v, between %v and %v", c, got, low, high)
		}
	}
}

func TestShuffle_PassIsOneRelease(t *testing.T) {
	h := poisson(1, 2, 25)
	h.Lots[0].Lot.Sampling = ledger.Sampling{Policy: ledger.Shuffle, LotSize: 100, Records: 1000}
	got := epsilonOf(t, h, 1e-5, "pld") // two passes and a half: three
	near(t, "three passes", got.Epsilon, epsilonOf(t, poisson(1, 2, 3), 1e-5, "pld").Epsilon, 1e-12)
	if got.Adjacency != ledger.ZeroOut || !strings.Contains(got.Note, "Poisson sampling at the same rate would have given epsilon") {
		t.Errorf("got %+v", got)
	}
	if d := deltaOf(t, h, 1, "pld"); d.Adjacency != ledger.ZeroOut || d.Note != shuffleNote(ledger.ZeroOut) {
		t.Errorf("δ is %+v", d)
	}
	replaced := h
	replaced.Header.Adjacency = ledger.ReplaceOne
	if d := deltaOf(t, replaced, 1, "pld"); !strings.Contains(d.Note, "under replace-one") {
		t.Errorf("where a record is replaced: %+v", d)
	}
	// A pass whose noise changes halfway counts with the smaller noise, in either order.
	two := epsilonOf(t, poisson(1, 2, 2), 1e-5, "pld").Epsilon
	h.Lots[0].Count = 15
	other := h.Lots[0]
	other.Lot.Queries = []ledger.Query{{Group: "all", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 4}}
	other.Count = 5
	h.Lots = []ledger.RepeatedLot{h.Lots[0], other}
	near(t, "two passes, noise rising", epsilonOf(t, h, 1e-5, "pld").Epsilon, two, 1e-12)
	h.Lots = []ledger.RepeatedLot{other, h.Lots[0]}
	near(t, "two passes, noise falling", epsilonOf(t, h, 1e-5, "pld").Epsilon, two, 1e-12)
	// Lots of another size begin another pass.
	larger := h.Lots[1]
	larger.Lot.Sampling.LotSize, larger.Count = 200, 6
	h.Lots[1].Count = 3
	h.Lots = []ledger.RepeatedLot{h.Lots[1], larger}
	near(t, "passes of two sizes", epsilonOf(t, h, 1e-5, "pld").Epsilon, epsilonOf(t, poisson(1, 2, 3), 1e-5, "pld").Epsilon, 1e-12)
}

func TestEpsilon_EmptyHistory(t *testing.T) {
	for _, name := range []string{"pld", "rdp", "gdp"} {
		if epsilon, delta := epsilonOf(t, ledger.History{}, 1e-5, name).Epsilon, deltaOf(t, ledger.History{}, 1, name).Delta; epsilon != 0 || delta != 0 {
			t.Errorf("%s: ε = %v, δ = %v", name, epsilon, delta)
		}
	}
}

// A pass costs at least as much as each of its lots, for any noise.
func TestShuffle_PassOfDifferentNoise(t *testing.T) {
	of := func(s ledger.Sampling, queries []ledger.Query) ledger.RepeatedLot {
		return ledger.RepeatedLot{Lot: ledger.Lot{Sampling: s, Queries: queries}, Count: 1}
	}
	half, all := ledger.Sampling{Policy: ledger.Shuffle, LotSize: 1, Records: 2}, ledger.Sampling{Policy: ledger.FullBatch}
	kinds := [][]ledger.Query{
		{{Group: "g", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 1}},
		{{Group: "l", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: .5}},
		{{Group: "l", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: .7}, {Group: "m", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: .4}},
		{{Group: "d", Mechanism: ledger.DiscreteGaussian, Sensitivity: 1, Noise: 1}},
		{{Group: "d", Mechanism: ledger.DiscreteGaussian, Sensitivity: 2, Noise: 3}, {Group: "e", Mechanism: ledger.DiscreteGaussian, Sensitivity: 3, Noise: 3}, {Group: "l", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: 9}},
	}
	for _, name := range []string{"pld", "rdp", "zcdp"} {
		for _, a := range kinds {
			for _, b := range kinds {
				pass := epsilonOf(t, ledger.History{Lots: []ledger.RepeatedLot{of(half, a), of(half, b)}}, 1e-3, name).Epsilon
				for _, lot := range [][]ledger.Query{a, b} {
					if alone := epsilonOf(t, ledger.History{Lots: []ledger.RepeatedLot{of(all, lot)}}, 1e-3, name); pass < alone.Epsilon*(1-1e-3) {
						t.Errorf("%s: a pass of %v and %v spends %v, and %v alone %v", name, a, b, pass, lot, alone.Epsilon)
					}
				}
			}
		}
	}
}

// Another lot between the lots of a pass does not end the pass. Otherwise the halves with little
// noise of two passes would count as one pass.
func TestShuffle_PassWithOtherLotsBetween(t *testing.T) {
	half := func(noise float64) ledger.RepeatedLot {
		return ledger.RepeatedLot{Lot: ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.Shuffle, LotSize: 100, Records: 1000}, Queries: []ledger.Query{{Group: "all", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: noise}}}, Count: 5}
	}
	two := epsilonOf(t, poisson(1, 2, 2), 1e-5, "pld").Epsilon
	between := poisson(1, 1e6, 1).Lots[0]
	h := ledger.History{Lots: []ledger.RepeatedLot{half(100), between, half(2), half(2), half(100)}}
	near(t, "two passes", epsilonOf(t, h, 1e-5, "pld").Epsilon, two, 1e-6)
	for _, first := range []ledger.History{h, fixedLots(4, 1)} {
		alone := epsilonOf(t, first, 1e-5, "pld").Adjacency
		mixed := ledger.History{Lots: append(slices.Clip(first.Lots), between)}
		if got := epsilonOf(t, mixed, 1e-5, "pld").Adjacency; alone == ledger.AddRemove || got != alone {
			t.Errorf("accounted under %s, with others after them under %s", alone, got)
		}
	}
}

// If δ underflows, the result must not be 0: that would mean pure ε-privacy, which Gaussian noise
// does not give.
func TestDelta_IsNotZero(t *testing.T) {
	for _, name := range []string{"pld", "rdp", "moments", "gdp"} {
		for _, h := range []ledger.History{poisson(1, .1, 3), poisson(.5, .5, 1000)} {
			if a := deltaOf(t, h, 1e9, name); !(a.Delta > 0 && a.Delta < 1e-200) {
				t.Errorf("%s: got δ = %v", name, a.Delta)
			}
		}
	}
	if a := deltaOf(t, ledger.History{Lots: []ledger.RepeatedLot{laplaceLots(1, 1, 3)}}, 4, "pld"); a.Delta != 0 {
		t.Errorf("three Laplaces of scale 1: got δ = %v at ε = 4", a.Delta)
	}
}

func TestGuarantee_ReplaceOneNote(t *testing.T) {
	for _, c := range []struct {
		adjacency ledger.Adjacency
		rate      float64
		mechanism ledger.Mechanism
		noted     bool
	}{{ledger.ReplaceOne, .1, ledger.Laplace, true}, {ledger.ReplaceOne, .1, ledger.Gaussian, false}, {ledger.ReplaceOne, 1, ledger.Laplace, false}, {ledger.AddRemove, .1, ledger.Laplace, false}} {
		h := ledger.History{Header: ledger.Header{Adjacency: c.adjacency}, Lots: []ledger.RepeatedLot{lots(c.rate, 10, ledger.Query{Group: "g", Mechanism: c.mechanism, Sensitivity: 1, Noise: 4})}}
		if a := epsilonOf(t, h, 1e-5, "pld"); strings.Contains(a.Note, "not tight") != c.noted {
			t.Errorf("%s at rate %v, %s: the note is %q", c.adjacency, c.rate, c.mechanism, a.Note)
		}
	}
}
