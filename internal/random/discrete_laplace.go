package random

import "fmt"

// MaxLaplaceScale is the largest scale of discrete Laplace noise: 2^49. The largest value of a
// stream is then below 2^62.
const MaxLaplaceScale = 1 << 49

// DiscreteLaplaces fills dst with the values first, first+1, … of the stream of the discrete
// Laplace distribution: integers x with probability proportional to exp(-|x|/scale). The values
// do not depend on how a range is split into calls.
//
// The distribution is exact, because the computation uses only integers, after Canonne, Kamath
// and Steinke, "The Discrete Gaussian for Differential Privacy" (NeurIPS 2020), algorithm 2 with
// s = 1, except that a value of 8,000 scales, which has probability e^-8000, is drawn again. Added
// to an integer vector whose l1 distance between neighbours is at most S, the noise is
// (S/scale)-differentially private: the probabilities of x and x+d have a ratio of at most
// exp(|d|/scale). The running time depends on the values drawn.
//
// Value i uses a separate ChaCha20 generator, as in [Source.DiscreteGaussians].
func (s *Source) DiscreteLaplaces(dst []int64, st Stream, first, scale uint64) error {
	in, err := s.open(st, discreteLaplaceSampler, first, len(dst), MaxDiscrete)
	if err != nil {
		return err
	}
	if scale < 1 || scale > MaxLaplaceScale {
		return fmt.Errorf("noise: the scale of discrete Laplace noise is %d; it must be from 1 to 2^49", scale)
	}
	g := discreteGaussian{t: scale}
	for i := range dst {
		in[counterWord] = uint32(first + uint64(i))
		out := chachaBlock(&in)
		g.bits.restart(Key(out[:8]))
		dst[i] = g.laplace()
	}
	return nil
}
