package noise

import "github.com/dptrain/dptrain/internal/random"

// A Source computes the random values of one run: Normals, Uint64s, DiscreteGaussians,
// DiscreteLaplaces, PermuteAndFlip and others fill a vector with values of a [Stream]. Secure reports
// whether the key came from the operating system. A Source is immutable and safe for concurrent use.
type Source = random.Source

// New returns a Source with a new key from the operating system. It has no fallback: if the system
// provides no entropy, New returns an error.
func New() (*Source, error) { return random.New() }

// NewSeeded returns a Source whose values can be reproduced from the seed, for tests and public
// randomness. Its noise gives no privacy.
func NewSeeded(seed uint64) *Source { return random.NewSeeded(seed) }

// A Stream identifies one sequence of values of a [Source] by its purpose, the number of the lot and
// the number of the vector within the lot. Streams that differ in any of them are independent.
type Stream = random.Stream

// The purposes of a [Stream].
const (
	// Release is the noise added to a released vector.
	Release = random.Release
	// Sampling selects the records of a lot.
	Sampling = random.Sampling
	// ExampleRandomness determines dropout masks and the augmentation of examples.
	ExampleRandomness = random.ExampleRandomness
)

// The limits of one key: lots, and values of one stream. Exceeding them is an error.
const (
	MaxLots   = random.MaxLots
	MaxValues = random.MaxValues
)

// A RoundedGaussian releases integer sums with Gaussian noise of standard deviation Sigma that is
// correctly rounded: AddOne and Add replace an integer f by
//
//	r = round((f + N) / g),  N ~ N(0, Sigma²) over the reals,  g = 2^Grid(),  Sigma/512 ≤ g ≤ Sigma/256.
//
// f + N is the Gaussian mechanism over the real numbers, and r a function of it, so every statement
// about this mechanism holds for the released bits.
type RoundedGaussian = random.RoundedGaussian
