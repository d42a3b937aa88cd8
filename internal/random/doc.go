// Package random computes the random values of package noise: a counter-addressed cryptographic
// generator, and Gaussian, correctly rounded Gaussian, discrete Gaussian and Laplace samplers. Its
// functions on keys, nonces and constants are for devices that compute the same values.
//
// A [Source] has a ChaCha20 key. Each value depends only on the key, the [Stream] and the
// index of the value in the stream. Any thread or a GPU can therefore compute any part of a
// noise vector in any order. All builds of this package, with and without assembly, give
// the same bits.
//
//	key ─────────────┐
//	stream ─▶ nonce ─┼─▶ ChaCha20 block ─▶ 16 words ─▶ uniform numbers ─▶ Box–Muller ─▶ N(0, 1)
//	index ─▶ counter ┘
//
// # Guarantee
//
// If [New] drew the key from the operating system, the values are computationally
// indistinguishable from values made of truly random bits, provided that ChaCha20
// (D. J. Bernstein, "ChaCha, a variant of Salsa20", 2008; RFC 8439) is indistinguishable
// from a random function. A privacy guarantee based on this package is therefore
// computational (Mironov, Pandey, Reingold, Vadhan, "Computational Differential
// Privacy", CRYPTO 2009), as it is for every generator shorter than its output.
// An adversary who has the key can subtract the noise, so the key must not be stored.
//
// [RoundedGaussian] adds noise to sums of integers whose sensitivity is bounded in integers; the
// guarantee of the Gaussian mechanism then holds for the released bits. The other Gaussian and
// Laplace samplers round to floating-point numbers, and a guarantee that uses them is proved over
// the reals (Mironov 2012). [Source.DiscreteGaussians], [Source.DiscreteLaplaces] and
// [Source.PermuteAndFlip], which chooses among scores, are exact.
//
// Reading a stream twice gives the same noise twice, and two releases with the same noise
// reveal their difference. The caller must give each released vector its own lot and vector
// number, and each run, also a resumed one, a new Source.
package random
