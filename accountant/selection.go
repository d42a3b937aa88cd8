package accountant

import (
	"math"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/internal/rdp"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// RunDistribution is the distribution of the number of runs of a selection.
type RunDistribution struct {
	// Shape is η of a truncated negative binomial distribution: 1 gives the geometric and
	// 0 the logarithmic distribution. +Inf means the Poisson distribution.
	Shape float64
	// Mean is the expected number of runs.
	Mean float64
}

// maxMeanRuns is the largest mean accepted.
const maxMeanRuns = 500

func (r RunDistribution) check() error {
	switch {
	case !(r.Shape > -1):
		return dpevent.InvalidArgument("runs of shape %v: must be above -1, such as 1 (geometric), 0 (logarithmic) or +Inf (Poisson)", r.Shape)
	case !(r.Mean > 1 && r.Mean <= maxMeanRuns):
		return dpevent.InvalidArgument("%v runs on average: must be more than 1, and at most %d", r.Mean, maxMeanRuns)
	}
	return nil
}

func (r RunDistribution) poisson() bool { return math.IsInf(r.Shape, 1) }

// gamma is the second parameter γ of the truncated negative binomial distribution with
// this mean, η(1-γ)/(γ(1-γ^η)), which decreases from ∞ to 1 as γ increases.
func (r RunDistribution) gamma() float64 {
	low, high := -60.0, 0.0 // of log γ
	for range 200 {
		middle := (low + high) / 2
		power := 1 / -middle // η/(1-γ^η) where η is 0
		if r.Shape != 0 {
			power = r.Shape / -math.Expm1(r.Shape*middle)
		}
		if -math.Expm1(middle)*math.Exp(-middle)*power > r.Mean {
			low = middle
		} else {
			high = middle
		}
	}
	return math.Exp((low + high) / 2)
}

// Quantile returns the least number of runs k with P[K ≤ k] > u. For u uniform in [0, 1) it
// is a draw from the distribution. For the Poisson distribution it may be 0. The tail
// probability that a u of 53 bits cannot resolve is assigned to the last number.
func (r RunDistribution) Quantile(u float64) (int, error) {
	if err := r.check(); err != nil {
		return 0, err
	}
	if !(u >= 0 && u < 1) {
		return 0, dpevent.InvalidArgument("quantile %v: must be from 0 to less than 1", u)
	}
	k, p := 0, math.Exp(-r.Mean)
	grow := func(k float64) float64 { return r.Mean / (k + 1) }
	if !r.poisson() {
		g := r.gamma()
		k, p = 1, (1-g)/-math.Log(g)
		if r.Shape != 0 {
			p = (1 - g) * r.Shape / math.Expm1(-r.Shape*math.Log(g))
		}
		grow = func(k float64) float64 { return (1 - g) * (k + r.Shape) / (k + 1) }
	}
	for below := p; below <= u; below += p {
		p *= grow(float64(k))
		if k++; float64(k) > r.Mean && p < 0x1p-60 {
			break
		}
	}
	return k, nil
}

// Selection releases the best of a random number of runs. The number is drawn from Runs.
// Each run draws one of the candidates independently and uniformly. Only the outcome of the
// best run is released, including its score. The number of runs and everything about the
// other runs must stay secret.
//
// The guarantee assumes that the score is covered by a candidate's history, such as an
// accuracy on private records released with noise, or uses public data only. It is that of
// Papernot and Steinke, "Hyperparameter Tuning with Rényi Differential Privacy" (ICLR 2022,
// arXiv 2110.03620v2). Let one run satisfy
// (λ, ε(λ))-RDP for every order λ. The selection satisfies (λ, ε')-RDP with, for a
// truncated negative binomial distribution of parameters η and γ and any λ̂ ≥ 1
// (theorem 2),
//
//	ε' = ε(λ) + (1+η)(1-1/λ̂)ε(λ̂) + (1+η)log(1/γ)/λ̂ + log(E[K])/(λ-1)
//
// and for a Poisson distribution of mean μ, where one run satisfies (ε̂, δ̂)-DP with
// e^ε̂ ≤ 1 + 1/(λ-1) (theorem 6),
//
//	ε' = ε(λ) + μδ̂ + log(μ)/(λ-1).
//
// A run that draws its candidate has at most the divergence of the worst candidate, because
// the candidate is part of its outcome and its distribution does not depend on the data.
// Lots of a fixed size are accounted at their proven cost (Balle, Barthe and Gaboardi
// 2018), not at the published cost of the rdp accountant.
type Selection struct {
	Runs       RunDistribution
	Candidates []ledger.History // the history of a run, for each setting that it may draw
}

// Epsilon computes the ε that the selection spends at delta, by Rényi divergences.
func (s Selection) Epsilon(delta float64) (Guarantee, error) {
	return EpsilonWithSelections([]Selection{s}, ledger.History{}, delta)
}

// EpsilonWithSelections computes the ε that selections and the lots of h, on the same records,
// spend together at delta. Each of them has a bound on its Rényi divergence at every order, and
// the bounds add up (adaptive composition; Mironov 2017, proposition 1). The adjacency is
// replace-one if one of them has it, otherwise zero-out if one has it: sensitivities are for a
// record that is added, under every adjacency. h may have no lots.
func EpsilonWithSelections(selections []Selection, h ledger.History, delta float64) (Guarantee, error) {
	if err := checkDelta(delta); err != nil {
		return Guarantee{}, err
	}
	all := []ledger.History{}
	if len(h.Lots) > 0 {
		all = append(all, h)
	}
	for _, s := range selections {
		if err := s.check(); err != nil {
			return Guarantee{}, err
		}
		all = append(all, s.Candidates...)
	}
	joint := dpevent.Sequence{Adjacency: ledger.AddRemove}
	for _, h := range all {
		one, err := dpevent.FromHistory(h)
		if err != nil {
			return Guarantee{}, err
		}
		joint.Shuffled = joint.Shuffled || one.Shuffled
		if one.Adjacency == ledger.ReplaceOne || joint.Adjacency == ledger.AddRemove {
			joint.Adjacency = one.Adjacency
		}
		if joint.Note == "" {
			joint.Note = one.Note
		}
	}
	total := func(float64) float64 { return 0 }
	if len(h.Lots) > 0 {
		var err error
		if total, err = divergenceUnder(joint.Adjacency, h); err != nil {
			return Guarantee{}, err
		}
	}
	for _, s := range selections {
		run, err := divergenceUnder(joint.Adjacency, s.Candidates...)
		if err != nil {
			return Guarantee{}, err
		}
		others, best := total, s.Runs.divergence(run)
		total = func(order float64) float64 { return others(order) + best(order) }
	}
	order, epsilon := rdp.BestOrder(func(order float64) float64 { return rdp.ToEpsilon(order, total(order), delta) })
	answer := Guarantee{Epsilon: max(0, epsilon), Delta: delta, Accountant: "rdp", Adjacency: joint.Adjacency, Order: order}
	if len(selections) > 0 {
		answer.addNote("The best of a random number of runs was released (Papernot and Steinke 2022); the cost covers all of them.")
	}
	answer.addNote(joint.Note)
	if joint.Shuffled {
		answer.addNote(shuffleNote(answer.Adjacency))
	}
	return answer, nil
}

func (s Selection) check() error {
	if err := s.Runs.check(); err != nil {
		return err
	}
	if len(s.Candidates) == 0 {
		return dpevent.InvalidArgument("a selection has no candidates: give at least one")
	}
	return nil
}

// divergenceUnder returns the largest Rényi divergence of histories, by order, under an adjacency.
func divergenceUnder(adjacency ledger.Adjacency, histories ...ledger.History) (func(order float64) float64, error) {
	var all [][]dpevent.RepeatedEvent
	for _, h := range histories {
		h.Header.Adjacency = adjacency
		one, err := dpevent.FromHistory(h)
		if err != nil {
			return nil, err
		}
		events, err := rdp.RoundEvents(one.Events)
		if err != nil {
			return nil, err
		}
		all = append(all, events)
	}
	known := map[float64]float64{}
	return func(order float64) float64 {
		worst, seen := known[order]
		if !seen {
			for _, events := range all {
				worst = max(worst, rdp.TotalDivergence(events, order, rdp.Divergence))
			}
			known[order] = worst
		}
		return worst
	}, nil
}

// divergence converts the Rényi divergence of one run to that of the selection.
func (r RunDistribution) divergence(run func(order float64) float64) func(order float64) float64 {
	if r.poisson() {
		return func(order float64) float64 {
			epsilon := math.Log1p(1 / (order - 1))
			_, logDelta := rdp.BestOrder(func(order float64) float64 { return rdp.ToLogDelta(order, run(order), epsilon) })
			return run(order) + r.Mean*min(1, math.Exp(logDelta)) + math.Log(r.Mean)/(order-1)
		}
	}
	price := -math.Log(r.gamma())
	// At λ̂ = 1 the divergence has the factor 0, so this order is tried separately.
	_, least := rdp.BestOrder(func(order float64) float64 { return (1-1/order)*run(order) + price/order })
	extra := (1 + r.Shape) * min(least, price)
	return func(order float64) float64 {
		return run(order) + extra + math.Log(r.Mean)/(order-1)
	}
}
