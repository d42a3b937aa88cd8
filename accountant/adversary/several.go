package adversary

import "math"

// Several bounds what an adversary learns from several contributions of one client, each with the same
// mechanism. δ of each is that of one contribution at ε, for the adversary's view: a decreasing function.
//
// Let D_j be the data with which the client makes its contributions if the first j are made from other
// data. From D_(j-1) to D_j one contribution changes; those before and after it are part of the process,
// whose steps are functions of their own data and of what they draw. So each of the n changes moves the
// adversary's view by at most δ(ε), and what the adversary learns of all follows as for a group of n
// records (Vadhan 2017, "The Complexity of Differential Privacy", lemma 2.2):
//
//	nε at (1 + e^ε + … + e^((n-1)ε))·δ(ε).
type Several struct {
	Contributions int
	Delta         func(epsilon float64) float64
}

// Epsilon returns the least ε of all contributions at delta that follows; +Inf if there is none up to
// the given ε of one.
func (s Several) Epsilon(delta, most float64) float64 {
	n := float64(s.Contributions)
	sum := func(epsilon float64) float64 {
		if epsilon == 0 {
			return n
		}
		return math.Expm1(n*epsilon) / math.Expm1(epsilon)
	}
	// δ(ε)·sum(ε) can rise again, so all ε on a grid are tried; each is a bound.
	best := math.Inf(1)
	const steps = 4096
	for i := range steps + 1 {
		one := most * float64(i) / steps
		if sum(one)*s.Delta(one) <= delta {
			best = n * one
			break
		}
	}
	return best
}

// Advantage bounds the advantage of guessing between two data sets of the client: the advantages of the
// changes add up.
func (s Several) Advantage() float64 { return min(1, float64(s.Contributions)*s.Delta(0)) }
