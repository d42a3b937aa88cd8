package drawdiscard

// StationaryVariance is the variance among k instances that updates keep: kσ²/2, where σ² is
// the mean square of one weight's change in an update. It is the expectation of the unbiased
// sample variance, with the divisor k-1; with the divisor k it is (k-1)σ²/2. For one instance
// there is no variance among instances, and the result is 0.
//
// Derivation (theorem 3.1 of Pihur et al. 2018). Look at one weight. An update draws slots I and
// J, independent and uniform, and sets w_J to w_I + ξ. Let ξ be independent of I and J, and
// E ξ² = σ². Let D be the mean of (w_a - w_b)² over the pairs a ≠ b: twice the unbiased sample
// variance. The update changes the pairs that contain J, a share 2/k of all pairs. Such a pair
// (J, b) becomes (w_I + ξ - w_b)². With probability 1/k, I is b: the expectation is σ².
// Otherwise (I, b) is a uniformly random pair. The pairs (I, b) and (b, I) are equally likely, so
// the mixed term has expectation 0, and the expectation is D + σ². Together
//
//	E D' = (1 - 2/k)·D + (2/k)·(σ² + (1-1/k)·D) = (1 - 2/k²)·D + (2/k)·σ².
//
// The fixed point is D = kσ², a sample variance of kσ²/2. The distance from it shrinks by the
// factor 1 - 2/k² in each update, so the variance forgets its start in about k²/2 updates.
//
// A drift of the weights (E ξ ≠ 0, from gradients) counts in σ². A drift that depends on the
// instance, as where gradients pull instances together, lowers the variance below this value.
func StationaryVariance(k int, updateVariance float64) float64 {
	if k <= 1 {
		return 0
	}
	return float64(k) * updateVariance / 2
}

// MeanStepVariance is the variance of the change of the instances' mean in one update of the
// variance σ², in the stationary state: σ²/k.
//
// Derivation. The mean changes by (w_I + ξ - w_J)/k. With probability 1-1/k the slots differ
// and E(w_I - w_J)² = D = kσ²; so the variance is (σ² + (1-1/k)·kσ²)/k² = σ²/k. For one
// instance it is σ².
//
// So noise that no gradient counteracts moves the mean of the instances as a random walk for every
// k. In k updates its variance grows by σ², as it does in one update of a single instance. Only
// the variance among the instances is stationary.
func MeanStepVariance(k int, updateVariance float64) float64 {
	return updateVariance / float64(k)
}
