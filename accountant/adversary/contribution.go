package adversary

import (
	"math"

	"github.com/dptrain/dptrain/accountant/internal/gaussian"
	"github.com/dptrain/dptrain/accountant/internal/rdp"
)

// Contribution is one client's noisy step: a mechanism that is (Epsilon, Delta)-DP for replacing
// all data of the client.
type Contribution struct {
	Epsilon float64
	Delta   float64 // 0 for Laplace noise, positive for Gaussian noise
	shift   float64 // of Gaussian noise: an upper bound on sensitivity/σ

	// rho bounds the Rényi divergence of every order α between two data sets of the client by αρ,
	// and also that of the noise and of the noise moved by the difference of their steps.
	rho float64
}

// NewLaplace returns the contribution of a client with Laplace noise of scale Δ₁/ε on every weight,
// where Δ₁ bounds the change of the step in the ℓ1 norm.
//
// A Laplace value of scale b that moves by x is |x|/b-DP, which implies ρ = (x/b)²/2 (Bun and Steinke
// 2016, proposition 3.3). The sum over weights is Δ₂²/(2b²), at most (Δ₁/b)²/2 = ε²/2.
func NewLaplace(epsilon float64) Contribution {
	return Contribution{Epsilon: epsilon, rho: epsilon * epsilon / 2}
}

// NewBoxLaplace is NewLaplace for a gradient of the given number of weights that is clipped to a box,
// whose elements can change by Δ each. The ℓ1 sensitivity is then weights·Δ, and the noise of one
// weight alone is (ε/weights)-DP: ρ is ε²/(2·weights).
func NewBoxLaplace(epsilon float64, weights int) Contribution {
	return Contribution{Epsilon: epsilon, rho: epsilon * epsilon / (2 * float64(weights))}
}

// NewGaussian returns the contribution of a client with Gaussian noise that is (ε, δ)-DP. The least
// noise that is (ε, δ)-DP (Balle and Wang 2018) is assumed, so that the bounds hold for more noise,
// such as that of Kenthapadi et al. 2013.
func NewGaussian(epsilon, delta float64) Contribution {
	low, high := 0.0, 1.0
	for gaussian.Epsilon(high, delta) < epsilon {
		high *= 2
	}
	for range 100 {
		if mid := (low + high) / 2; gaussian.Epsilon(mid, delta) < epsilon {
			low = mid
		} else {
			high = mid
		}
	}
	return Contribution{Epsilon: epsilon, Delta: delta, shift: high, rho: high * high / 2}
}

// profile returns a δ for which the contribution is (epsilon, δ)-DP. A pure ε-DP mechanism is a
// function of randomized response with the same ε (Kairouz, Oh and Viswanath, "The Composition
// Theorem for Differential Privacy", 2015), for which δ is (e^ε-e^epsilon)/(e^ε+1). Many weights with
// little noise each have a smaller δ by their Rényi divergence.
func (c Contribution) profile(epsilon float64) float64 {
	if c.Delta > 0 {
		upper, _ := gaussian.DeltaBounds(c.shift, epsilon)
		return upper
	}
	pure := max(0, -math.Expm1(epsilon-c.Epsilon)/(1+math.Exp(-c.Epsilon)))
	return min(pure, renyiDelta(c.rho, epsilon))
}

// Advantage bounds the advantage of any adversary who sees the returned model and guesses between
// two data sets of the client: true positive rate minus false positive rate.
func (c Contribution) Advantage() float64 { return c.profile(0) }

// ExpectedLoss bounds the mean of the logarithm of the likelihood ratio of the returned model, the
// Kullback-Leibler divergence between two data sets of the client. For randomized response, which
// is the worst pure ε-DP mechanism, it is ε·tanh(ε/2). It is at most the limit ρ of the Rényi
// divergences, and equal to it for Gaussian noise.
func (c Contribution) ExpectedLoss() float64 {
	if c.Delta > 0 {
		return c.rho
	}
	return min(c.rho, c.Epsilon*math.Tanh(c.Epsilon/2))
}

// EpsilonAt returns the least ε at which the contribution's δ is known to be at most delta.
func (c Contribution) EpsilonAt(delta float64) float64 {
	return leastEpsilon(c.profile, delta, c.Epsilon)
}

// renyiDelta converts ρ to δ at epsilon: the best order of proposition 12 of Canonne, Kamath and
// Steinke 2020, or the total variation distance, which Pinsker's inequality bounds by √(ρ/2).
func renyiDelta(rho, epsilon float64) float64 {
	_, logDelta := rdp.BestOrder(func(order float64) float64 { return rdp.ToLogDelta(order, order*rho, epsilon) })
	return min(1, math.Exp(logDelta), math.Sqrt(rho/2))
}

// leastEpsilon returns the least ε at which delta, a decreasing function, is at most target. The
// result errs upwards by at most 1e-12 of itself. It is most at the most.
func leastEpsilon(delta func(epsilon float64) float64, target, most float64) float64 {
	if delta(0) <= target {
		return 0
	}
	low, high := 0.0, most
	for high-low > 1e-12*high {
		if mid := (low + high) / 2; delta(mid) <= target {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}
