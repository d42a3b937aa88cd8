package random

import (
	"errors"
	"fmt"
	"math/big"
	"math/bits"
)

// DiscreteGaussians fills dst with the values first, first+1, … of the stream
// of the discrete Gaussian distribution: integers x with probability proportional to
// exp(-x²/(2·variance)). The values do not depend on how a range is split into calls.
//
// The distribution is exact, because the computation uses only integers, after Canonne, Kamath and
// Steinke, "The Discrete Gaussian for Differential Privacy" (NeurIPS 2020),
// algorithms 1 to 3, except that a value whose geometric part reaches 8,000 steps,
// which has probability e^-8000, is drawn again. Added to an integer sum of sensitivity S
// the noise is (S²/(2·variance))-concentrated differentially private (theorem 4 there).
// The running time depends on the values drawn.
//
// Value i uses a separate ChaCha20 generator. Its key is the first eight words of the
// stream's block i and its nonce is zero.
//
// The variance is positive and at most 2^100.
func (s *Source) DiscreteGaussians(dst []int64, st Stream, first uint64, variance *big.Rat) error {
	in, err := s.open(st, discreteSampler, first, len(dst), MaxDiscrete)
	if err != nil {
		return err
	}
	if variance == nil || variance.Sign() <= 0 {
		return errors.New("noise: the variance of a discrete Gaussian must be above 0")
	}
	if variance.Cmp(maxVariance) > 0 {
		return fmt.Errorf("noise: the variance of a discrete Gaussian must be at most 2^100: use a coarser lattice")
	}
	g := newDiscreteGaussian(variance)
	for i := range dst {
		in[counterWord] = uint32(first + uint64(i))
		out := chachaBlock(&in)
		g.bits.restart(Key(out[:8]))
		dst[i] = g.next()
	}
	return nil
}

var maxVariance = new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 100))

// discreteGaussian samples with the variance n/d by rejection. Its proposals are discrete
// Laplace values of scale t = ⌊σ⌋+1.
type discreteGaussian struct {
	bits    uniformBits
	t       uint64
	n, td   *big.Int // n and t·d
	twoNDT2 *big.Int // 2·n·d·t²

	distance, square, whole, part big.Int // reused by next
}

func newDiscreteGaussian(variance *big.Rat) *discreteGaussian {
	n, d := variance.Num(), variance.Denom()
	t := new(big.Int).Sqrt(new(big.Int).Quo(n, d))
	t.Add(t, big.NewInt(1))
	td := new(big.Int).Mul(t, d)
	den := new(big.Int).Mul(td, t)
	den.Mul(den, n).Lsh(den, 1)
	return &discreteGaussian{t: t.Uint64(), n: n, td: td, twoNDT2: den}
}

// next is algorithm 3: a proposal y is accepted with probability
// exp(-(|y| - σ²/t)²/(2σ²)), where the exponent is (|y|·t·d - n)²/(2·n·d·t²).
func (g *discreteGaussian) next() int64 {
	for {
		y := g.laplace()
		g.part.SetUint64(uint64(max(y, -y)))
		g.distance.Mul(&g.part, g.td)
		g.distance.Sub(&g.distance, g.n)
		g.square.Mul(&g.distance, &g.distance)
		g.whole.QuoRem(&g.square, g.twoNDT2, &g.part)
		if g.expMinus() {
			return y
		}
	}
}

// laplace is algorithm 2 with s = 1: y with probability proportional to
// exp(-|y|/t).
func (g *discreteGaussian) laplace() int64 {
	const maxSteps = 8000
	for {
		u := g.bits.below(g.t)
		if !g.bits.bernoulliExp(func() bool { return g.bits.bernoulli(u, g.t) }) {
			continue
		}
		v := uint64(0)
		for v < maxSteps && g.bits.bernoulliExpMinus1() {
			v++
		}
		negative := g.bits.next()>>63 == 1
		x := int64(u + g.t*v)
		if v == maxSteps || negative && x == 0 {
			continue
		}
		if negative {
			return -x
		}
		return x
	}
}

// expMinus is true with probability exp(-(whole + part/twoNDT2)).
func (g *discreteGaussian) expMinus() bool {
	for i := uint64(0); !g.whole.IsUint64() || i < g.whole.Uint64(); i++ {
		if !g.bits.bernoulliExpMinus1() {
			return false
		}
	}
	fraction := &g.distance
	return g.bits.bernoulliExp(func() bool {
		fraction.Set(&g.part)
		return g.bernoulliBig(fraction)
	})
}

// bernoulliBig is true with probability num/twoNDT2, which is below 1. It
// overwrites num.
func (g *discreteGaussian) bernoulliBig(num *big.Int) bool {
	for num.Sign() > 0 {
		g.square.Lsh(num, 64)
		g.whole.QuoRem(&g.square, g.twoNDT2, num)
		if draw, digit := g.bits.next(), g.whole.Uint64(); draw != digit {
			return draw < digit
		}
	}
	return false
}

// uniformBits returns the uniform 64-bit values of one key.
type uniformBits struct {
	in, out chachaState
	used    int
}

func (b *uniformBits) restart(key Key) {
	b.in = newState(key, [3]uint32{})
	b.used = len(b.out)
}

func (b *uniformBits) next() uint64 {
	if b.used == len(b.out) {
		b.out = chachaBlock(&b.in)
		b.in[counterWord]++
		b.used = 0
	}
	b.used += 2
	return uint64(b.out[b.used-2]) | uint64(b.out[b.used-1])<<32
}

// below is uniform on 0 … n-1: the high word of a draw times n, redrawn if
// the low word is in the part that would make some values more likely.
func (b *uniformBits) below(n uint64) uint64 {
	for {
		if hi, lo := bits.Mul64(b.next(), n); lo >= -n%n {
			return hi
		}
	}
}

// bernoulli is true with probability num/den, num < den: it compares a uniform
// real with the quotient, 64 bits at a time until they differ.
func (b *uniformBits) bernoulli(num, den uint64) bool {
	for num > 0 {
		var digit uint64
		digit, num = bits.Div64(num, 0, den)
		if draw := b.next(); draw != digit {
			return draw < digit
		}
	}
	return false
}

// bernoulliExp is algorithm 1: true with probability exp(-γ), given a coin that
// is true with probability γ <= 1. A coin of γ/k is that coin and one of 1/k.
func (b *uniformBits) bernoulliExp(coin func() bool) bool {
	for k := uint64(1); ; k++ {
		if !coin() || k > 1 && !b.bernoulli(1, k) {
			return k%2 == 1
		}
	}
}

func (b *uniformBits) bernoulliExpMinus1() bool {
	return b.bernoulliExp(func() bool { return true })
}
