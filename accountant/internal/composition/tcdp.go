package composition

import (
	"math"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
)

// truncated is a guarantee of truncated concentrated differential privacy, (ρ, ω)-tCDP: the Rényi
// divergence of every order α in (1, ω) is at most ρα (Bun, Dwork, Rothblum and Steinke 2018,
// definition 1). zCDP is the case ω = ∞.
type truncated struct{ rho, omega float64 }

// tcdpOf returns the guarantee of one event.
//
// Where lots are sampled at a rate s, theorem 11 amplifies a (ρ, ω')-tCDP mechanism to
//
//	(13 s²ρ, log(1/s)/(4ρ))-tCDP,
//
// for s and ρ of at most 0.1, log(1/s) ≥ 3ρ(2 + log₂(1/ρ)) and ω' ≥ log(1/s)/(2ρ) ≥ 3. It is a theorem
// about lots of a fixed size and a record that is replaced. It compares mixtures sP + (1-s)R and sQ +
// (1-s)R of distributions that are pairwise within ρα. Poisson lots and a record that is removed are the
// case R = Q, which is used for Gaussian noise only: there a test compares it with the divergence itself.
// Elsewhere the event counts as one without sampling.
func tcdpOf(e dpevent.Event) truncated {
	rho := zcdpOf(e)
	s := e.Rate
	plain := truncated{rho, math.Inf(1)}
	switch {
	case !e.Subsampled() || !e.FixedSize && !e.GaussianOnly():
		return plain
	case s > 0.1 || rho > 0.1 || rho == 0:
		return plain
	}
	logRate := -math.Log(s)
	if logRate < 3*rho*(2-math.Log2(rho)) || logRate/(2*rho) < 3 {
		return plain
	}
	return truncated{13 * s * s * rho, logRate / (4 * rho)}
}

// TCDPEpsilon adds the ρ of tCDP and converts the sum at the best order below the least ω (Bun, Dwork,
// Rothblum and Steinke 2018, lemma 2 for composition). It is at most the ε of zCDP, which has no
// amplification.
func TCDPEpsilon(events []dpevent.RepeatedEvent, delta float64) float64 {
	sum := truncated{omega: math.Inf(1)}
	for _, e := range events {
		one := tcdpOf(e.Event)
		sum.rho += float64(e.Count) * one.rho
		sum.omega = min(sum.omega, one.omega)
	}
	if math.IsInf(sum.omega, 1) {
		return concentratedEpsilon(sum, delta, len(events))
	}
	return min(concentratedEpsilon(sum, delta, len(events)), ZCDPEpsilon(events, delta))
}
