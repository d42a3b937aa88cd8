package accountant

import (
	"math"

	"github.com/dptrain/dptrain/accountant/ledger"
)

const (
	gdpNote  = "The gdp accountant is a central-limit approximation, which may say less than was spent."
	zcdpNote = "zCDP knows no amplification by sampling: the lots are accounted as if every record took part."
	// Abadi et al. compare with a step of (qε, qδ), which holds up to a constant.
	strongNote = "Strong composition as Abadi et al. (2016) draw it, with a sampled step taken to be (qε, qδ); of historical interest."
)

// composed is a sequence of events with the answers of the pld accountant, which other
// accountants also need.
type composed struct {
	Sequence
	symmetric   bool // fixed-size lots by the symmetric curve: see fixed_size.go
	pldEpsilons map[pldQuery]Guarantee
}

type pldQuery struct {
	delta     float64
	symmetric bool
}

// pldEpsilon computes each answer once: for lots of a fixed size the rdp and strong
// accountants ask for it too.
func pldEpsilon(s composed, delta float64) (Guarantee, error) {
	q := pldQuery{delta, s.symmetric}
	if g, known := s.pldEpsilons[q]; known {
		return g, nil
	}
	epsilon, lower, err := PLDEpsilon(s.Events, s.symmetric, delta)
	g := Guarantee{Epsilon: epsilon, LowerBound: lower}
	if err == nil {
		s.pldEpsilons[q] = g
	}
	return g, err
}

func pldDelta(s composed, epsilon float64) (Guarantee, error) {
	delta, lower, err := PLDDelta(s.Events, s.symmetric, epsilon)
	return Guarantee{Delta: delta, LowerBound: lower}, err
}

func rdpEpsilon(s composed, delta float64) (Guarantee, error) {
	events, err := renyiEvents(s.Events)
	if err != nil {
		return Guarantee{}, err
	}
	epsilon, order := RDPEpsilon(publishedRDP(), events, delta)
	g := Guarantee{Epsilon: epsilon, Order: order}
	if !AnyFixedSize(s.Events) {
		return g, nil
	}
	floor, err := pldEpsilon(s, delta)
	g.Epsilon, g.Note = max(g.Epsilon, floor.Epsilon), wangNote
	return g, err
}

func rdpDelta(s composed, epsilon float64) (Guarantee, error) {
	events, err := renyiEvents(s.Events)
	if err != nil {
		return Guarantee{}, err
	}
	delta, order := RDPDelta(publishedRDP(), events, epsilon)
	g := Guarantee{Delta: delta, Order: order}
	if !AnyFixedSize(s.Events) {
		return g, nil
	}
	floor, err := pldDelta(s, epsilon)
	g.Delta, g.Note = max(g.Delta, floor.Delta), wangNote
	return g, err
}

func momentsEpsilon(s composed, delta float64) (Guarantee, error) {
	events, err := renyiEvents(s.Events)
	if err != nil {
		return Guarantee{}, err
	}
	epsilon, order := MomentsEpsilon(events, delta)
	return Guarantee{Epsilon: epsilon, Order: order}, nil
}

func momentsDelta(s composed, epsilon float64) (Guarantee, error) {
	events, err := renyiEvents(s.Events)
	if err != nil {
		return Guarantee{}, err
	}
	delta, order := MomentsDelta(events, epsilon)
	return Guarantee{Delta: delta, Order: order}, nil
}

const asymptoticNote = "The asymptotic bound leaves out a term of third order in q, and may say less than was spent."

// AsymptoticMoments is ε at delta by the bound α(λ) ≤ q²λ(λ+1)/((1-q)σ²) of Abadi et
// al. (2016, section 3.2), without its term of third order: as history, an
// approximation that may be optimistic. It is for Poisson samples with Gaussian noise.
func AsymptoticMoments(p Plan, delta float64) (Guarantee, error) {
	s, err := FromHistory(p.History())
	switch {
	case err != nil:
		return Guarantee{}, err
	case p.Steps < 1:
		return Guarantee{}, InvalidArgument("%d steps: must be at least 1", p.Steps)
	case !(delta > 0 && delta < 1):
		return Guarantee{}, InvalidArgument("delta %v: must be above 0 and below 1", delta)
	case p.Sampling.Policy != ledger.Poisson || p.Sampling.Rate == 1 || !AllGaussian(s.Events):
		return Guarantee{}, InvalidArgument("the asymptotic bound is for Poisson samples of a rate below 1 with Gaussian noise: use moments")
	}
	epsilon, order := AsymptoticMomentsEpsilon(s.Events, delta)
	return Guarantee{Epsilon: epsilon, Delta: delta, Order: order, Accountant: "moments", Adjacency: s.Adjacency, Note: asymptoticNote}, nil
}

func gdpEpsilon(s composed, delta float64) (Guarantee, error) {
	epsilon, err := GDPEpsilon(s.Events, delta)
	return Guarantee{Epsilon: epsilon, Note: gdpNote}, err
}

func gdpDelta(s composed, epsilon float64) (Guarantee, error) {
	delta, err := GDPDelta(s.Events, epsilon)
	return Guarantee{Delta: delta, Note: gdpNote}, err
}

func zcdpEpsilon(s composed, delta float64) (Guarantee, error) {
	g := Guarantee{Epsilon: ZCDPEpsilon(s.Events, delta)}
	if AnySubsampled(s.Events) {
		g.Note = zcdpNote
	}
	return g, nil
}

func naiveEpsilon(s composed, delta float64) (Guarantee, error) {
	return Guarantee{Epsilon: BasicEpsilon(s.Events, delta)}, nil
}

func strongEpsilon(s composed, delta float64) (Guarantee, error) {
	epsilon := AdvancedEpsilon(s.Events, delta)
	floor, err := rdpEpsilon(s, delta)
	g := Guarantee{Epsilon: max(epsilon, floor.Epsilon)}
	if AnySubsampled(s.Events) {
		g.Note = strongNote
	}
	return g, err
}

// deltaBy is the least δ at which an accountant that answers for ε says epsilon.
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
