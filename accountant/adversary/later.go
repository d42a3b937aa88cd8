package adversary

import "math"

// Later bounds what an adversary learns who sees the server some updates after a contribution. The
// adversary knows everything about the process but its random choices and the other instances.
type Later struct {
	Contribution Contribution
	Instances    int
	Updates      float64 // between the contribution and the adversary's look
}

// OneModelDelta is the δ at epsilon of one instance, drawn at random.
//
// Looking back over one update, a lineage moves to a uniform instance if it was the target, which
// has probability 1/k. The ancestor of a uniform instance is therefore uniform: the drawn instance
// descends from the contribution with probability exactly 1/k after any number of updates.
// Otherwise its distribution does not depend on the contribution. The hockey-stick divergence is
// jointly convex, so δ is at most 1/k of the contribution's.
func (l Later) OneModelDelta(epsilon float64) float64 {
	return l.Contribution.profile(epsilon) / float64(l.Instances)
}

// AllInstancesDelta is the δ at epsilon of all k instances together, and of every function of them,
// such as their average. With probability [GoneProbability] no instance descends from the
// contribution.
func (l Later) AllInstancesDelta(epsilon float64) float64 {
	const summing = 1e-12 // relative errors of the sum
	return min(1, ExpectedAncestors(l.Instances, l.Updates)/float64(l.Instances)*(1+summing)) * l.Contribution.profile(epsilon)
}

// IteratedDelta is the δ at epsilon of one instance, drawn at random, if every later step is
// non-expansive in the ℓ2 norm apart from its noise, and if all clients add noise of one scale.
//
// A lineage has a number N of updates after the contribution that is binomial with Updates trials
// of probability 1/k. N is independent of the instance in which the lineage ends: each update moves
// it to a uniform instance, and without an update its end is uniform already. After N non-expansive
// noisy steps, the divergence αρ of the contribution is αρ/(N+1) (Feldman, Mironov, Talwar and
// Thakurta, "Privacy Amplification by Iteration", 2018, theorem 22, whose proof uses of the noise
// only that moving it by x costs αx²/(2σ²)). A step of gradient descent is non-expansive if the
// loss is convex and β-smooth and the learning rate is at most 2/β (proposition 18 there). Clipping
// the average gradient of several examples can break this.
func (l Later) IteratedDelta() func(epsilon float64) float64 {
	share := 1 / float64(l.Instances)
	spans := binomialSpans(l.Updates, share)
	rho := l.Contribution.rho
	return func(epsilon float64) float64 {
		once := l.Contribution.profile(epsilon)
		sum := outside * once
		for _, s := range spans { // δ decreases with the number of steps: the first of a span bounds the others
			if s.probability > 0 {
				sum += s.probability * min(once, renyiDelta(rho/(s.first+1), epsilon))
			}
		}
		return share * min(once, sum*(1+roundingUp))
	}
}

// Epsilon returns the least ε at which a decreasing δ of l is at most delta; +Inf if there is none.
func (l Later) Epsilon(deltaAt func(epsilon float64) float64, delta float64) float64 {
	most := l.Contribution.Epsilon
	for deltaAt(most) > delta {
		if most *= 2; most > 1e6 {
			return math.Inf(1)
		}
	}
	return leastEpsilon(deltaAt, delta, most)
}
