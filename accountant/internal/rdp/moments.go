package rdp

import (
	"math"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
)

// maxMoment is the largest moment tried. Abadi et al. found 32 sufficient.
const maxMoment = 255

// MomentsEpsilon is ε at delta by the moments accountant as published: the logarithms of
// integer moments of the privacy loss, by numerical integration, and the tail bound
// δ = min over λ of exp(Σα(λ) - λε) (Abadi et al. 2016, "Deep Learning with
// Differential Privacy", theorem 2). The order is λ + 1, the Rényi order of the moment.
func MomentsEpsilon(events []dpevent.RepeatedEvent, delta float64) (epsilon, order float64) {
	return epsilonWithTruncation(events, delta, func(events []dpevent.RepeatedEvent, delta float64) (epsilon, order float64) {
		order, least := bestMoment(func(moment float64) float64 {
			return (logMoments(events, moment) - math.Log(delta)) / moment
		})
		return max(0, least), order
	})
}

// MomentsDelta is δ at epsilon by the same tail bound.
func MomentsDelta(events []dpevent.RepeatedEvent, epsilon float64) (delta, order float64) {
	return deltaWithTruncation(events, epsilon, func(events []dpevent.RepeatedEvent, epsilon float64) (delta, order float64) {
		order, least := bestMoment(func(moment float64) float64 {
			return logMoments(events, moment) - moment*epsilon
		})
		return math.Exp(min(0, least)), order
	})
}

// AsymptoticMomentsEpsilon is ε at delta by the bound α(λ) ≤ q²λ(λ+1)/((1-q)σ²) of Abadi
// et al. (2016, section 3.2) without its term of third order, which is an approximation
// and may be optimistic. It is for Poisson samples of a rate below 1 with Gaussian noise.
func AsymptoticMomentsEpsilon(events []dpevent.RepeatedEvent, delta float64) (epsilon, order float64) {
	perMoment := 0.0
	for _, e := range events {
		perMoment += float64(e.Count) * e.Rate * e.Rate * e.GaussianShift * e.GaussianShift / (1 - e.Rate)
	}
	order, epsilon = bestMoment(func(moment float64) float64 {
		return perMoment*(moment+1) - math.Log(delta)/moment
	})
	return epsilon, order
}

// bestMoment minimizes value over integer moments and returns the Rényi order of the best
// moment and the minimum.
func bestMoment(value func(moment float64) float64) (order, least float64) {
	least = math.Inf(1)
	for moment := 1.0; moment <= maxMoment; moment++ {
		v := value(moment)
		if v < least {
			order, least = moment+1, v
		} else if moment > order+8 {
			break
		}
	}
	return order, least
}

// logMoments is Σ α(λ). The paper takes the maximum of two moments; the one with the mixture
// first is the larger (see Divergence).
func logMoments(events []dpevent.RepeatedEvent, moment float64) float64 {
	return moment * TotalDivergence(events, moment+1, Divergence)
}
