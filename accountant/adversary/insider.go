package adversary

// InsiderExpectedLoss is the figure of Pihur et al. 2018, lemma 4.1, for an insider who sees all k
// instances after a contribution: the mean, over the server's choices, of ε if the drawn instance is
// still there to compare with, and of 0 if the contribution has replaced it, which has probability 1/k.
//
// It is an expectation and not a guarantee: with probability (k-1)/k the insider can subtract the
// drawn instance, and the loss is then up to ε. It also takes the loss as 0 where the drawn instance
// is overwritten. That holds only if the other instances do not hint at it; instances of one server
// do, and an insider who saw the instances before the contribution knows it. What holds in every
// case is ε, and in the mean [Contribution.ExpectedLoss], because what the insider sees is a
// function of the returned model and of values that do not depend on the client's data.
func InsiderExpectedLoss(k int, epsilon float64) float64 {
	return epsilon * float64(k-1) / float64(k)
}
