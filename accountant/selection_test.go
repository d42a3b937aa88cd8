package accountant

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
)

var byPoisson = math.Inf(1)

func selectionOf(runs RunDistribution, rate, noise float64, steps int) Selection {
	s := ledger.Sampling{Policy: ledger.Poisson, Rate: rate}
	if rate == 1 {
		s = ledger.Sampling{Policy: ledger.FullBatch}
	}
	return Selection{Runs: runs, Candidates: []ledger.History{Plan{Sampling: s, Steps: steps, Noise: noise}.History()}}
}

// ε of dp-accounting 0.6 (RepeatAndSelectDpEvent under its RdpAccountant, orders 1.05,
// 1.1, … 10.95, 11, 12, … 512, δ = 1e-5).
func TestSelection_PublishedValues(t *testing.T) {
	for _, c := range []struct {
		rate, noise float64
		steps       int
		runs        RunDistribution
		want        float64
	}{
		{0.01, 1, 1000, RunDistribution{0, 10}, 3.52223},
		{0.01, 1, 1000, RunDistribution{1, 10}, 4.10290},
		{0.01, 1, 1000, RunDistribution{0.5, 10}, 3.83023},
		{0.01, 1, 1000, RunDistribution{byPoisson, 10}, 4.32882},
		{0.01, 1, 1000, RunDistribution{1, 1.5}, 2.73661},
		{0.005, 4, 2000, RunDistribution{byPoisson, 16}, 0.650774},
		{0.005, 4, 2000, RunDistribution{1, 16}, 0.510962},
		{0.005, 4, 2000, RunDistribution{0, 16}, 0.409909},
		{1, 10, 10, RunDistribution{byPoisson, 5}, 2.20136},
		{1, 10, 10, RunDistribution{1, 5}, 2.45960},
	} {
		got, err := selectionOf(c.runs, c.rate, c.noise, c.steps).Epsilon(1e-5)
		if err != nil || !(math.Abs(got.Epsilon/c.want-1) <= 2e-3) {
			t.Errorf("%+v: ε = %.6g (order %v), want %.6g (%v)", c, got.Epsilon, got.Order, c.want, err)
		}
		if got.Accountant != "rdp" || !strings.Contains(got.Note, "best of a random number") {
			t.Errorf("%+v", got)
		}
	}
}

// divergence is the Rényi divergence of p from q.
func divergence(p, q []float64, order float64) float64 {
	sum := 0.0
	for i := range p {
		sum += math.Exp(order*math.Log(p[i]) + (1-order)*math.Log(q[i]))
	}
	return math.Log(sum) / (order - 1)
}

// runChances are the probabilities P[K = k] by definition, up to a negligible tail.
func runChances(r RunDistribution) []float64 {
	p := []float64{0}
	if r.poisson() {
		for k := range 400 {
			g, _ := math.Lgamma(float64(k) + 1)
			p = append(p[:k], math.Exp(float64(k)*math.Log(r.Mean)-r.Mean-g))
		}
		return p
	}
	g := r.gamma()
	product := 1.0 // of (l+η)/(l+1) for l < k
	for k := 1; k < 20000 && (k < 5 || p[k-1] > 1e-20); k++ {
		l := float64(k - 1)
		if r.Shape == 0 {
			p = append(p, math.Exp(float64(k)*math.Log1p(-g))/(float64(k)*-math.Log(g)))
			continue
		}
		product *= (l + r.Shape) / (l + 1)
		p = append(p, product*math.Exp(float64(k)*math.Log1p(-g))/(math.Pow(g, -r.Shape)-1))
	}
	return p
}

var someRuns = []RunDistribution{{1, 2}, {1, 10}, {0, 3}, {0, 20}, {0.5, 8}, {-0.5, 4}, {3, 6}, {byPoisson, 1.5}, {byPoisson, 10}}

func TestRunDistribution_Quantile(t *testing.T) {
	for _, r := range someRuns {
		total, mean := 0.0, 0.0
		for k, p := range runChances(r) {
			if p > 1e-9 { // the quantile changes from k-1 to k at P[K < k]
				if got, err := r.Quantile(total + p/2); err != nil || got != k {
					t.Errorf("%+v: quantile %v is %d runs, want %d (%v)", r, total+p/2, got, k, err)
				}
			}
			total += p
			mean += float64(k) * p
		}
		if !(math.Abs(total-1) <= 1e-9) || !(math.Abs(mean/r.Mean-1) <= 1e-6) {
			t.Errorf("%+v: %v in all, %v runs on average", r, total, mean)
		}
		if _, err := r.Quantile(1 - 0x1p-53); err != nil {
			t.Error(err)
		}
	}
}

// The theorems are tested with mechanisms of a few outcomes, for which the exact divergence is
// computable: the best of K runs is at most y with probability E[F(y)^K].
func TestSelection_BoundsExactDivergence(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	tightest := math.Inf(1)
	for _, r := range someRuns {
		number := runChances(r)
		selected := func(one []float64) []float64 {
			out := make([]float64, 0, len(one)+1)
			if r.poisson() {
				out = append(out, number[0]) // zero runs
			}
			below, before := 0.0, 0.0
			for _, p := range one {
				below += p
				upTo := 0.0
				for k := len(number) - 1; k >= 1; k-- {
					upTo += number[k] * math.Pow(min(1, below), float64(k))
				}
				out = append(out, upTo-before)
				before = upTo
			}
			return out
		}
		for range 10 {
			n := 2 + random.IntN(3)
			p, q := make([]float64, n), make([]float64, n)
			apart := 0.1 + 2*random.Float64()
			sumP, sumQ := 0.0, 0.0
			for i := range p {
				p[i] = math.Exp(2 * random.NormFloat64())
				q[i] = p[i] * math.Exp(apart*(random.Float64()-0.5))
				sumP, sumQ = sumP+p[i], sumQ+q[i]
			}
			for i := range p {
				p[i], q[i] = p[i]/sumP, q[i]/sumQ
			}
			run := func(order float64) float64 { return max(divergence(p, q, order), divergence(q, p, order)) }
			bound := r.divergence(run)
			a, b := selected(p), selected(q)
			for _, order := range []float64{1.1, 1.5, 2, 3, 5, 10, 30} {
				exact := max(divergence(a, b, order), divergence(b, a, order))
				if exact > bound(order)*(1+1e-9)+1e-9 {
					t.Errorf("%+v, order %v: the divergence is %v, the bound %v", r, order, exact, bound(order))
				}
				tightest = min(tightest, bound(order)-exact)
			}
		}
	}
	if tightest > 1 {
		t.Errorf("no bound comes nearer than %v: is it one of this?", tightest)
	}
}

// A selection costs more than its worst candidate, and another candidate never lowers the cost.
func TestSelection_WorstCandidate(t *testing.T) {
	for _, r := range []RunDistribution{{1, 5}, {0, 5}, {byPoisson, 5}} {
		small, large := selectionOf(r, 0.01, 2, 500), selectionOf(r, 0.02, 1, 300)
		both := Selection{r, append(small.Candidates, large.Candidates...)}
		a, errA := small.Epsilon(1e-6)
		b, errB := large.Epsilon(1e-6)
		c, errC := both.Epsilon(1e-6)
		alone, err := Epsilon(large.Candidates[0], 1e-6, "rdp")
		if err := errors.Join(err, errA, errB, errC); err != nil {
			t.Fatal(err)
		}
		if c.Epsilon < max(a.Epsilon, b.Epsilon) || b.Epsilon <= alone.Epsilon {
			t.Errorf("%+v: %v and %v, both %v, one run %v", r, a.Epsilon, b.Epsilon, c.Epsilon, alone.Epsilon)
		}
	}
}

func TestSelection_RejectsInvalidInput(t *testing.T) {
	good := selectionOf(RunDistribution{1, 5}, 0.01, 1, 10)
	var kinds ledger.History // each needs integrals for every order
	for i := range 500 {
		kinds.Lots = append(kinds.Lots, ledger.RepeatedLot{Lot: ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: 0.01}, Queries: []ledger.Query{{Group: "g", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: 1 + 1e-3*float64(i)}}}, Count: 1})
	}
	for message, s := range map[string]Selection{
		"no candidates":           {Runs: RunDistribution{1, 5}},
		"too many different lots": {RunDistribution{1, 5}, []ledger.History{kinds}},
		"shape -1":                selectionOf(RunDistribution{-1, 5}, 0.01, 1, 1),
		"shape NaN":               selectionOf(RunDistribution{math.NaN(), 5}, 0.01, 1, 1),
		"0 runs on average":       selectionOf(RunDistribution{1, 0}, 0.01, 1, 1),
		"1 runs on average":       selectionOf(RunDistribution{1, 1}, 0.01, 1, 1),
		"501 runs":                selectionOf(RunDistribution{byPoisson, 501}, 0.01, 1, 1),
		"sampling rate":           selectionOf(RunDistribution{1, 5}, 2, 1, 1),
	} {
		if _, err := s.Epsilon(1e-5); err == nil || !strings.Contains(err.Error(), message) || !errors.Is(err, ErrArgument) {
			t.Errorf("%v, want %q", err, message)
		}
	}
	for _, delta := range []float64{0, 1, math.NaN()} {
		if _, err := good.Epsilon(delta); err == nil {
			t.Errorf("δ = %v was taken", delta)
		}
	}
	if _, err := (RunDistribution{1, 0}).Quantile(.5); err == nil {
		t.Error("a quantile of no runs was taken")
	}
	for _, u := range []float64{-0.1, 1, math.NaN()} {
		if _, err := good.Runs.Quantile(u); err == nil {
			t.Error(fmt.Sprint("quantile ", u, " was taken"))
		}
	}
}

// Selections and ledgers compose: the result is the least over the orders of the sum of theorem 2's
// bounds and of the Gaussian divergences, computed here in closed form.
func TestEpsilonWithSelections_AddsDivergences(t *testing.T) {
	const mean, delta = 4, 1e-5
	everyRecord := func(noise float64, steps int) ledger.History {
		return Plan{Sampling: ledger.Sampling{Policy: ledger.FullBatch, Records: 100}, Steps: steps, Noise: noise, Adjacency: ledger.ZeroOut}.History()
	}
	s := Selection{RunDistribution{1, mean}, []ledger.History{everyRecord(3, 2), everyRecord(5, 1)}} // the first costs more
	h := everyRecord(4, 5)
	least := func(f func(order float64) float64) float64 {
		best := math.Inf(1)
		for order := 1.005; order < 1e4; order *= 1.002 {
			best = min(best, f(order))
		}
		return best
	}
	selected := func(order float64) float64 {
		run := func(order float64) float64 { return 2 * order / (2 * 3 * 3) }
		extra := least(func(other float64) float64 { return 2*(1-1/other)*run(other) + 2*math.Log(mean)/other })
		return run(order) + extra + math.Log(mean)/(order-1)
	}
	lots := func(order float64) float64 { return 5 * order / (2 * 4 * 4) }
	for name, test := range map[string]struct {
		selections []Selection
		history    ledger.History
		total      func(order float64) float64
	}{
		"both":           {[]Selection{s}, h, func(order float64) float64 { return selected(order) + lots(order) }},
		"two selections": {[]Selection{s, s}, ledger.History{}, func(order float64) float64 { return 2 * selected(order) }},
		"lots":           {nil, h, lots},
	} {
		want := least(func(order float64) float64 {
			return test.total(order) + math.Log1p(-1/order) - math.Log(delta*order)/(order-1)
		})
		got, err := EpsilonWithSelections(test.selections, test.history, delta)
		if err != nil || math.Abs(got.Epsilon-want) > 0.002*want || got.Adjacency != ledger.ZeroOut || got.Accountant != "rdp" {
			t.Errorf("%s: ε = %v under %s by %s (%v), want %v", name, got.Epsilon, got.Adjacency, got.Accountant, err, want)
		}
	}
}

// Under different adjacencies all count under the one that the strictest of them needs.
func TestEpsilonWithSelections_StrictestAdjacency(t *testing.T) {
	s := selectionOf(RunDistribution{1, 5}, 0.01, 1, 10)
	fixed := Plan{Sampling: ledger.Sampling{Policy: ledger.FixedSize, LotSize: 5, Records: 500}, Steps: 1, Noise: 4}.History()
	mixed := Selection{s.Runs, append(slices.Clone(s.Candidates), fixed)}
	alone, err := s.Epsilon(1e-5)
	if err != nil {
		t.Fatal(err)
	}
	for name, compute := range map[string]func() (Guarantee, error){
		"candidates": func() (Guarantee, error) { return mixed.Epsilon(1e-5) },
		"a ledger":   func() (Guarantee, error) { return EpsilonWithSelections([]Selection{s}, fixed, 1e-5) },
	} {
		if got, err := compute(); err != nil || got.Adjacency != ledger.ReplaceOne || got.Epsilon <= alone.Epsilon {
			t.Errorf("%s: ε = %v under %s (%v); %v under %s without lots of a fixed size", name, got.Epsilon, got.Adjacency, err, alone.Epsilon, alone.Adjacency)
		}
	}
}
