package adversary

import "math"

// ExpectedAncestors returns the expected number of instances, out of k, that have a descendant
// after the given number of updates. An instance descends from another if it was computed from it
// by zero or more updates.
//
// Looking back over one update, the target j of the update moves to the drawn i. Two of a lineages
// merge if both i and j are among them and differ, which has probability a(a-1)/k². The number of
// ancestors is therefore a pure death process with these rates: Kingman's coalescent in discrete
// time, the genealogy of the Moran model. Its eigenvalues are 1-j(j-1)/k², and Tavaré's sum for the
// mean ("Line-of-descent and genealogical processes", Theoretical Population Biology 26, 1984)
//
//	Σ_{j=1..k} (2j-1) · k(k-1)…(k-j+1) / (k(k+1)…(k+j-1)) · (1-j(j-1)/k²)^updates
//
// has no negative term.
func ExpectedAncestors(k int, updates float64) float64 {
	n := float64(k)
	sum, falling := 0.0, 1.0 // falling = k(k-1)…(k-j+1) / (k(k+1)…(k+j-1))
	for j := 1.0; j <= n; j++ {
		term := (2*j - 1) * falling * math.Exp(updates*math.Log1p(-j*(j-1)/(n*n)))
		sum += term
		if term < 1e-18*sum {
			break
		}
		falling *= (n - j) / (n + j)
	}
	return sum
}

// GoneProbability is the probability that no instance descends from a contribution, the given
// number of updates after it. By symmetry, a contribution has a descendant with probability
// [ExpectedAncestors]/k. The probability grows with the updates from 0 to 1-1/k and never reaches
// 1: with probability 1/k all instances descend from the contribution in the end.
func GoneProbability(k int, updates float64) float64 {
	return max(0, 1-ExpectedAncestors(k, updates)/float64(k))
}
