// Package composition computes ε and δ by closed-form composition: the sum of ε (basic
// composition), advanced composition, zero-concentrated differential privacy (zCDP), its truncated form (tCDP) and
// the central limit of Gaussian differential privacy (GDP).
package composition

import (
	"math"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/internal/gaussian"
	"github.com/dptrain/dptrain/accountant/internal/numerics"
	"github.com/dptrain/dptrain/accountant/internal/rdp"
)

// gdpShift is the shift of the Gaussian to which the composition converges. By the
// central limit theorem of Bu, Dong, Long and Su, "Deep Learning with Gaussian
// Differential Privacy" (2020), μ² = Σ q²·(e^(1/σ²) - 1) for sampled Gaussians;
// it is exact for unsampled ones.
func gdpShift(events []dpevent.RepeatedEvent) (float64, error) {
	squares := 0.0
	for _, e := range events {
		if len(e.LaplaceShifts)+len(e.PureLosses) > 0 {
			return 0, dpevent.InvalidArgument("the gdp accountant supports Gaussian noise only, but a group has Laplace noise or is a choice: use pld or rdp")
		}
		shift := e.GaussianShift * e.GaussianShift
		for _, d := range e.DiscreteGaussians {
			shift += d.SquaredRatio()
		}
		switch {
		case e.IsPoissonReplaceOne(): // the variance of q·(e^(ax - a²/2) - e^(-ax - a²/2)), 2a the shift
			shift = 4 * e.Rate * e.Rate * math.Sinh(shift/4)
		case e.Subsampled():
			shift = e.Rate * e.Rate * math.Expm1(shift)
		}
		if t := e.Truncation; t.Probability > 0 {
			far := t.Far * e.GaussianShift
			shift = (1-t.Probability)*shift + t.Probability*t.Rate*t.Rate*math.Expm1(far*far)
		}
		squares += float64(e.Count) * shift
	}
	return math.Sqrt(squares), nil
}

// GDPEpsilon is ε at delta of the limiting Gaussian: an approximation, which may be too small.
func GDPEpsilon(events []dpevent.RepeatedEvent, delta float64) (float64, error) {
	shift, err := gdpShift(events)
	if err != nil || math.IsInf(shift, 1) {
		return math.Inf(1), err
	}
	return gaussian.Epsilon(shift, delta), nil
}

// GDPDelta is δ at epsilon of the limiting Gaussian: an approximation, which may be too small.
func GDPDelta(events []dpevent.RepeatedEvent, epsilon float64) (float64, error) {
	shift, err := gdpShift(events)
	if err != nil || math.IsInf(shift, 1) {
		return 1, err
	}
	return gaussian.Delta(shift, epsilon), nil
}

// zcdpOf is the ρ of zCDP of one event without amplification by sampling: (S/σ)²/2 for Gaussians (Bun and
// Steinke 2016, proposition 1.6; Canonne et al. 2020, theorem 4, for discrete ones), ε²/2 for a Laplace
// group or a choice that is ε-private (proposition 1.4).
func zcdpOf(e dpevent.Event) float64 {
	rho := e.GaussianShift * e.GaussianShift / 2
	for _, d := range e.DiscreteGaussians {
		rho += d.SquaredRatio() / 2
	}
	for _, list := range [2][]float64{e.LaplaceShifts, e.PureLosses} {
		for _, loss := range list {
			rho += loss * loss / 2
		}
	}
	return rho
}

// ZCDPEpsilon adds the ρ of zCDP and converts the sum at the best order.
func ZCDPEpsilon(events []dpevent.RepeatedEvent, delta float64) float64 {
	sum := truncated{omega: math.Inf(1)}
	for _, e := range events {
		sum.rho += float64(e.Count) * zcdpOf(e.Event)
	}
	return concentratedEpsilon(sum, delta, len(events))
}

// goldenSections reduce an interval to the rounding of its ends.
const goldenSections = 80

// concentratedEpsilon converts the guarantee of a composition of some events at the best order.
func concentratedEpsilon(c truncated, delta float64, events int) float64 {
	if c.rho == 0 || math.IsInf(c.rho, 1) {
		return c.rho
	}
	value := func(logOrder float64) float64 {
		order := 1 + math.Exp(logOrder)
		return rdp.ToEpsilon(order, c.rho*order, delta)
	}
	guess := math.Log(-math.Log(delta)/c.rho) / 2
	from := max(guess-20, -30) // below -30 the order rounds to 1
	// The bound holds at every order below ω.
	to := min(max(guess+20, from), math.Log(c.omega-1)-1e-9)
	best := numerics.GoldenSection(value, min(from, to), to, goldenSections)
	order := 1 + math.Exp(best)
	// The bound holds at any order; the error is that of the operations at this one.
	off := dpevent.RoundingUnit * (16*(math.Abs(math.Log(delta))+math.Log(order)+1)/(order-1) + float64(16+4*events)*c.rho*order + 16)
	return max(0, value(best)+off)
}

// unsampledEpsilon is an ε of one event at delta, computed without sampling.
func unsampledEpsilon(e dpevent.Event, delta float64) float64 {
	if e.GaussianOnly() {
		epsilon, _ := gaussian.EpsilonBounds(e.GaussianShift, delta)
		return epsilon
	}
	if e.IsPure() {
		return e.PureLoss()
	}
	_, epsilon := rdp.BestOrder(func(order float64) float64 {
		return rdp.ToEpsilon(order, rdp.UnsampledDivergence(e, order), delta)
	})
	return max(0, epsilon)
}

// expectedParticipations is the expected number of lots that contain a given record and need a
// part of δ.
func expectedParticipations(events []dpevent.RepeatedEvent) float64 {
	total := 0.0
	for _, e := range events {
		if !e.IsPure() {
			total += float64(e.Count) * e.Rate
		}
	}
	return total
}

// BasicEpsilon adds the ε of all steps, each that is not pure at an equal part of δ, and amplified
// by sampling as (log(1 + q(e^ε - 1)), qδ) (Balle, Barthe and Gaboardi 2018,
// theorem 8).
func BasicEpsilon(events []dpevent.RepeatedEvent, delta float64) float64 {
	parts := expectedParticipations(events)
	total := 0.0
	for _, e := range events {
		one := unsampledEpsilon(e.Event, min(delta/parts, 0.999))
		if e.Subsampled() && one < 700 {
			one = math.Log1p(e.Rate * math.Expm1(one))
		} else if e.Subsampled() {
			one += math.Log(e.Rate)
		}
		total += float64(e.Count) * one
	}
	return total * (1 + dpevent.RoundingUnit*float64(256+4*len(events)))
}

// AdvancedEpsilon composes the classical Gaussian mechanism, ε₀ = √(2 log(1.25/δ₀))·S/σ
// (Dwork and Roth 2014, theorem A.1), by advanced composition,
// √(2 log(1/δ')·Σε²) + Σε(e^ε - 1) (theorem 3.20), at the best split of δ. A sampled
// step counts as qε₀, as in Abadi et al. (2016, section 5.1). This is slightly less than the
// theorem gives, so the caller must not report less than the rdp accountant.
func AdvancedEpsilon(events []dpevent.RepeatedEvent, delta float64) float64 {
	parts := expectedParticipations(events)
	value := func(logOdds float64) float64 {
		share := 1 / (1 + math.Exp(-logOdds))
		each := share * delta / max(parts, 1)
		sum, squares := 0.0, 0.0
		for _, e := range events {
			one := e.GaussianShift * math.Sqrt(2*math.Log(1.25/each))
			if !e.GaussianOnly() {
				one = unsampledEpsilon(e.Event, each)
			}
			one *= e.Rate
			sum += float64(e.Count) * one * math.Expm1(one)
			squares += float64(e.Count) * one * one
		}
		return sum + math.Sqrt(-2*math.Log((1-share)*delta)*squares)
	}
	return value(numerics.GoldenSection(value, -30, 30, goldenSections))
}
