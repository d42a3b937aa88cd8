package random

import (
	"fmt"
	"math"
	"math/bits"
)

// PermuteAndFlip returns the index of a score, chosen at random: it visits the scores in a random
// order, and accepts a score s with probability exp((s - best)/scale), where best is the largest
// score and scale = num/den. The first accepted score is chosen (McKenna and Sheldon,
// "Permute-and-Flip: A new mechanism for differentially private selection", NeurIPS 2020). If one
// record changes each score by at most Δ, the choice is (2Δ/scale)-differentially private (theorem
// 1 there), without δ. Its expected loss is at most that of the exponential mechanism.
//
// The distribution is exact: the computation uses only integers, after Canonne, Kamath and Steinke,
// "The Discrete Gaussian for Differential Privacy" (NeurIPS 2020), algorithm 1, and uniform
// permutations. The running time depends on the scores.
//
// The choice uses a separate ChaCha20 generator, whose key is the first block of the stream.
func (s *Source) PermuteAndFlip(scores []int64, st Stream, num, den uint64) (int, error) {
	in, err := s.open(st, permuteAndFlipSampler, 0, 1, MaxDiscrete)
	if err != nil {
		return 0, err
	}
	if len(scores) == 0 {
		return 0, fmt.Errorf("noise: no scores to choose from")
	}
	if num == 0 || den == 0 {
		return 0, fmt.Errorf("noise: the scale of a choice is %d/%d; it must be above 0", num, den)
	}
	best := scores[0]
	for _, score := range scores {
		best = max(best, score)
	}
	var b uniformBits
	out := chachaBlock(&in)
	b.restart(Key(out[:8]))
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	for i := range order {
		k := i + int(b.below(uint64(len(order)-i)))
		order[i], order[k] = order[k], order[i]
		gap := uint64(best) - uint64(scores[order[i]]) // correct modulo 2^64, and not negative
		if b.bernoulliExpRatio(gap, den, num) {
			return order[i], nil
		}
	}
	panic("noise: the best score is accepted with certainty")
}

// bernoulliExpRatio is true with probability exp(-gap·a/b).
func (u *uniformBits) bernoulliExpRatio(gap, a, b uint64) bool {
	high, low := bits.Mul64(gap, a)
	whole, part := uint64(math.MaxUint64), uint64(0)
	if high < b {
		whole, part = bits.Div64(high, low, b)
	} // else the exponent is at least 2^64, and no coin below is tossed so often
	for ; whole > 0; whole-- {
		if !u.bernoulliExpMinus1() {
			return false
		}
	}
	return u.bernoulliExp(func() bool { return u.bernoulli(part, b) })
}
