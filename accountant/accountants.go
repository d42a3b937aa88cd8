package accountant

import (
	"math"

	"github.com/dptrain/dptrain/accountant/internal/composition"
	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/internal/pld"
	"github.com/dptrain/dptrain/accountant/internal/rdp"
	"github.com/dptrain/dptrain/accountant/ledger"
)

const (
	gdpNote    = "The gdp accountant is an approximation by the central limit theorem (Bu et al. 2020), not a bound: the run may have spent more."
	zcdpNote   = "zCDP has no amplification by sampling: the cost is that of lots in which every record takes part."
	strongNote = "This is the strong composition curve of Abadi et al. (2016, figure 2), for historical comparison. It treats a sampled step as (qε, qδ), which holds only up to a constant, and is at least the rdp result."
)

// composed is a sequence of events with results of the pld accountant, which other
// accountants use too.
type composed struct {
	dpevent.Sequence
	symmetric   bool // fixed-size lots by the symmetric curve: see fixed_size.go
	pldEpsilons map[pldQuery]Guarantee
}

type pldQuery struct {
	delta     float64
	symmetric bool
}

// pldEpsilon computes each result once. For lots of a fixed size the rdp and strong
// accountants use it too.
func pldEpsilon(s composed, delta float64) (Guarantee, error) {
	q := pldQuery{delta, s.symmetric}
	if g, known := s.pldEpsilons[q]; known {
		return g, nil
	}
	epsilon, lower, err := pld.Epsilon(s.Events, s.symmetric, delta)
	g := Guarantee{Epsilon: epsilon, LowerBound: lower}
	if err == nil {
		s.pldEpsilons[q] = g
	}
	return g, err
}

func pldDelta(s composed, epsilon float64) (Guarantee, error) {
	delta, lower, err := pld.Delta(s.Events, s.symmetric, epsilon)
	return Guarantee{Delta: delta, LowerBound: lower}, err
}

func rdpEpsilon(s composed, delta float64) (Guarantee, error) {
	events, err := rdp.RoundEvents(s.Events)
	if err != nil {
		return Guarantee{}, err
	}
	epsilon, order := rdp.Epsilon(rdp.PublishedDivergence(), events, delta)
	g := Guarantee{Epsilon: epsilon, Order: order}
	if !dpevent.AnyFixedSize(s.Events) {
		return g, nil
	}
	floor, err := pldEpsilon(s, delta)
	g.Epsilon, g.Note = max(g.Epsilon, floor.Epsilon), withoutReplacementNote
	return g, err
}

func rdpDelta(s composed, epsilon float64) (Guarantee, error) {
	events, err := rdp.RoundEvents(s.Events)
	if err != nil {
		return Guarantee{}, err
	}
	delta, order := rdp.Delta(rdp.PublishedDivergence(), events, epsilon)
	g := Guarantee{Delta: delta, Order: order}
	if !dpevent.AnyFixedSize(s.Events) {
		return g, nil
	}
	floor, err := pldDelta(s, epsilon)
	g.Delta, g.Note = max(g.Delta, floor.Delta), withoutReplacementNote
	return g, err
}

func momentsEpsilon(s composed, delta float64) (Guarantee, error) {
	events, err := rdp.RoundEvents(s.Events)
	if err != nil {
		return Guarantee{}, err
	}
	epsilon, order := rdp.MomentsEpsilon(events, delta)
	return Guarantee{Epsilon: epsilon, Order: order}, nil
}

func momentsDelta(s composed, epsilon float64) (Guarantee, error) {
	events, err := rdp.RoundEvents(s.Events)
	if err != nil {
		return Guarantee{}, err
	}
	delta, order := rdp.MomentsDelta(events, epsilon)
	return Guarantee{Delta: delta, Order: order}, nil
}

const asymptoticNote = "The asymptotic bound omits a term of third order in q: the run may have spent more."

// AsymptoticMoments computes ε at delta by the bound α(λ) ≤ q²λ(λ+1)/((1-q)σ²) of Abadi et
// al. (2016, section 3.2) without its term of third order. It is of historical interest: an
// approximation that may be optimistic. It is for Poisson samples with Gaussian noise.
func AsymptoticMoments(p Plan, delta float64) (Guarantee, error) {
	s, err := dpevent.FromHistory(p.History())
	switch {
	case err != nil:
		return Guarantee{}, err
	case p.Steps < 1:
		return Guarantee{}, dpevent.InvalidArgument("%d steps: must be at least 1", p.Steps)
	case !(delta > 0 && delta < 1):
		return Guarantee{}, dpevent.InvalidArgument("delta %v: must be above 0 and below 1", delta)
	case p.Sampling.Policy != ledger.Poisson || p.Sampling.Rate == 1 || !dpevent.AllGaussian(s.Events):
		return Guarantee{}, dpevent.InvalidArgument("the asymptotic bound is for Poisson samples of a rate below 1 with Gaussian noise: use moments")
	}
	epsilon, order := rdp.AsymptoticMomentsEpsilon(s.Events, delta)
	return Guarantee{Epsilon: epsilon, Delta: delta, Order: order, Accountant: "moments", Adjacency: s.Adjacency,
		Approximate: true, Note: asymptoticNote}, nil
}

func gdpEpsilon(s composed, delta float64) (Guarantee, error) {
	epsilon, err := composition.GDPEpsilon(s.Events, delta)
	return Guarantee{Epsilon: epsilon, Approximate: true, Note: gdpNote}, err
}

func gdpDelta(s composed, epsilon float64) (Guarantee, error) {
	delta, err := composition.GDPDelta(s.Events, epsilon)
	return Guarantee{Delta: delta, Approximate: true, Note: gdpNote}, err
}

func zcdpEpsilon(s composed, delta float64) (Guarantee, error) {
	g := Guarantee{Epsilon: composition.ZCDPEpsilon(dpevent.Untruncated(s.Events), delta)}
	if dpevent.AnySubsampled(s.Events) {
		g.Note = zcdpNote
	}
	return g, nil
}

func tcdpEpsilon(s composed, delta float64) (Guarantee, error) {
	return Guarantee{Epsilon: composition.TCDPEpsilon(dpevent.Untruncated(s.Events), delta)}, nil
}

func naiveEpsilon(s composed, delta float64) (Guarantee, error) {
	return Guarantee{Epsilon: composition.BasicEpsilon(dpevent.Untruncated(s.Events), delta)}, nil
}

func strongEpsilon(s composed, delta float64) (Guarantee, error) {
	epsilon := composition.AdvancedEpsilon(dpevent.Untruncated(s.Events), delta)
	floor, err := rdpEpsilon(s.asSymmetric(), delta) // proven, also for lots of a fixed size
	g := Guarantee{Epsilon: max(epsilon, floor.Epsilon)}
	if dpevent.AnySubsampled(s.Events) {
		g.Note = strongNote
	}
	return g, err
}

// deltaBy inverts an accountant that computes ε: it finds the least δ at which its result is at
// most epsilon, by bisection.
func deltaBy(epsilonOf func(composed, float64) (Guarantee, error)) func(composed, float64) (Guarantee, error) {
	return func(s composed, epsilon float64) (Guarantee, error) {
		below, above := math.Log(1e-300), math.Log1p(-1e-12)
		answer, err := epsilonOf(s, math.Exp(above))
		if err != nil {
			return answer, err
		}
		if answer.Epsilon > epsilon {
			answer.Delta = 1
			return answer, nil
		}
		for range 60 {
			middle := (below + above) / 2
			if answer, err = epsilonOf(s, math.Exp(middle)); err != nil {
				return answer, err
			}
			if answer.Epsilon <= epsilon {
				above = middle
			} else {
				below = middle
			}
		}
		answer.Delta = math.Exp(above)
		return answer, nil
	}
}
