package accountant

import (
	"math"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// mostMoment is the largest moment that is tried; Abadi et al. found 32 enough.
const mostMoment = 255

// momentsEpsilon is the moments accountant as published: the logarithms of whole
// moments of the privacy loss, by numerical integration, and the tail bound
// δ = min over λ of exp(Σα(λ) - λε) (Abadi et al. 2016, "Deep Learning with
// Differential Privacy", theorem 2). Order is λ + 1, the Rényi order that the
// moment is.
func momentsEpsilon(s spending, delta float64) (Guarantee, error) {
	events, err := renyiEvents(s.events)
	if err != nil {
		return Guarantee{}, err
	}
	order, least := leastMoment(func(moment float64) float64 {
		return (logMoments(events, moment) - math.Log(delta)) / moment
	})
	return Guarantee{Epsilon: max(0, least), Order: order}, nil
}

func momentsDelta(s spending, epsilon float64) (Guarantee, error) {
	events, err := renyiEvents(s.events)
	if err != nil {
		return Guarantee{}, err
	}
	order, least := leastMoment(func(moment float64) float64 {
		return logMoments(events, moment) - moment*epsilon
	})
	return Guarantee{Delta: math.Exp(min(0, least)), Order: order}, nil
}

// leastMoment is the least of the values of whole moments, and the order at which it is.
func leastMoment(value func(moment float64) float64) (order, least float64) {
	least = math.Inf(1)
	for moment := 1.0; moment <= mostMoment; moment++ {
		v := value(moment)
		if v < least {
			order, least = moment+1, v
		} else if moment > order+8 {
			break
		}
	}
	return order, least
}

// logMoments is Σ α(λ). The moment with the mixture first is the larger of the two
// that the paper takes the maximum of (see rdpOf).
func logMoments(events []counted, moment float64) float64 {
	return moment * rdpTotal(events, moment+1, rdpOf)
}

const asymptoticNote = "The asymptotic bound leaves out a term of third order in q, and may say less than was spent."

// AsymptoticMoments is ε at delta by the bound α(λ) ≤ q²λ(λ+1)/((1-q)σ²) of Abadi et
// al. (2016, section 3.2), without its term of third order: as history, an
// approximation that may be optimistic. It is for Poisson samples with Gaussian noise.
func AsymptoticMoments(p Plan, delta float64) (Guarantee, error) {
	s, err := spend(p.History())
	switch {
	case err != nil:
		return Guarantee{}, err
	case p.Steps < 1:
		return Guarantee{}, badArgument("%d steps: must be at least 1", p.Steps)
	case !(delta > 0 && delta < 1):
		return Guarantee{}, badArgument("delta %v: must be above 0 and below 1", delta)
	case p.Sampling.Policy != ledger.Poisson || p.Sampling.Rate == 1 || !s.pureGaussian():
		return Guarantee{}, badArgument("the asymptotic bound is for Poisson samples of a rate below 1 with Gaussian noise: use moments")
	}
	perMoment := 0.0
	for _, e := range s.events {
		perMoment += float64(e.count) * e.rate * e.rate * e.gaussian * e.gaussian / (1 - e.rate)
	}
	order, least := leastMoment(func(moment float64) float64 {
		return perMoment*(moment+1) - math.Log(delta)/moment
	})
	return Guarantee{Epsilon: least, Delta: delta, Order: order, Accountant: "moments", Adjacency: s.adjacency, Note: asymptoticNote}, nil
}
