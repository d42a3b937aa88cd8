// Package noise is what a caller says about noise: whose key it has, which stream of values a release
// takes, and how it is divided among groups.
//
//	source, err := noise.New()
//	stream := noise.Stream{Purpose: noise.Release, Lot: lot}
//	released, err := noise.RoundedGaussian{Sigma: 4}.AddOne(source, count, stream)
//
// # Guarantee
//
// If [New] drew the key from the operating system, the values are computationally
// indistinguishable from values made of truly random bits, provided that ChaCha20
// (D. J. Bernstein, "ChaCha, a variant of Salsa20", 2008; RFC 8439) is indistinguishable
// from a random function. A privacy guarantee based on this package is therefore
// computational (Mironov, Pandey, Reingold, Vadhan, "Computational Differential
// Privacy", CRYPTO 2009), as it is for every generator shorter than its output.
// An adversary who has the key can subtract the noise, so no caller of this package can read it.
//
// [RoundedGaussian] adds noise to sums of integers whose sensitivity is bounded in integers; the
// guarantee of the Gaussian mechanism then holds for the released bits. DiscreteGaussians,
// DiscreteLaplaces and PermuteAndFlip of a [Source], which chooses among scores, are exact. The other
// samplers round to floating-point numbers, and a guarantee that uses them is proved over the reals
// (Mironov 2012).
//
// Reading a stream twice gives the same noise twice, and two releases with the same noise
// reveal their difference. The caller must give each released vector its own lot and vector
// number, and each run, also a resumed one, a new Source.
package noise
