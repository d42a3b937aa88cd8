package adversary

import "math"

// ShuffledDelta is the δ at epsilon of all returned models together, with the indices of drawn and
// replaced instances, if clients contribute once each, in an order that is uniformly random and
// unknown to the adversary.
//
// Feldman, McMillan and Talwar ("Hiding Among the Clones", FOCS 2021, theorem 3.2) let the
// randomizer of each client depend on all earlier outputs, as a client of draw and discard does: it
// starts from a drawn instance. All that an insider sees is then a function of (A+D, C-A+1-D) or
// (A+1-D, C-A+D), where C is binomial with clients-1 trials of probability e^-ε, A is binomial with C
// trials of probability 1/2, and D is 1 with probability p = e^ε/(e^ε+1). The pair is symmetric.
// The local mechanism is pure ε-DP.
func ShuffledDelta(local float64, clients int) func(epsilon float64) float64 {
	spans := binomialSpans(float64(clients-1), math.Exp(-local))
	return func(epsilon float64) float64 {
		if epsilon >= local {
			return 0
		}
		sum := outside
		for _, s := range spans { // δ decreases with C, because the adversary can add a fair coin
			if s.probability > 0 {
				sum += s.probability * clonesDelta(local, s.first, epsilon)
			}
		}
		return min(1, sum*(1+roundingUp))
	}
}

// clonesDelta is the divergence of the pair for C = c. Let S be the probability that A ≥ t and P
// that A = t-1. The likelihood ratio increases with the first count u, and is above e^epsilon from
// u = t on. The first count is at least t with probability p(S+P) + (1-p)S or (1-p)(S+P) + pS.
func clonesDelta(local, c, epsilon float64) float64 {
	p, q := 1/(1+math.Exp(-local)), 1/(1+math.Exp(local))
	e := math.Exp(epsilon)
	t := math.Floor((c+1)*(e*p-q)/((p-q)*(1+e))) + 1
	if t > c+1 {
		return 0
	}
	logPoint := logChooseHalf(c, t-1)
	tail := 0.0 // S/P
	for a, ratio := t, 1.0; a <= c; a++ {
		ratio *= (c - a + 1) / a
		tail += ratio
		if ratio < 1e-17*tail {
			break
		}
	}
	return max(0, math.Exp(logPoint)*((p-e*q)-(e-1)*tail))
}

// logChooseHalf is the logarithm of the probability of a heads in c fair coins.
func logChooseHalf(c, a float64) float64 {
	g := func(x float64) float64 { v, _ := math.Lgamma(x + 1); return v }
	return g(c) - g(a) - g(c-a) - c*math.Ln2
}

// ShuffledEpsilon is the least ε at which [ShuffledDelta] is at most delta. It is at most local.
func ShuffledEpsilon(local float64, clients int, delta float64) float64 {
	return leastEpsilon(ShuffledDelta(local, clients), delta, local)
}
