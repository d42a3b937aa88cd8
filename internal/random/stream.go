package random

import "fmt"

// Purpose is the use of a stream. Streams of different purposes are independent.
type Purpose uint8

const (
	// Release is the noise added to a released vector.
	Release Purpose = 1 + iota
	// Sampling selects the records of a lot.
	Sampling
	// ExampleRandomness determines dropout masks and the augmentation of examples.
	ExampleRandomness
)

// A Stream identifies one sequence of values of a Source. Streams that differ in any field
// share no block of the generator. Neither do two samplers (Normals, Laplaces, …) of one
// stream, because all fields and the sampler are the nonce:
//
//	nonce word 0   Vector
//	nonce word 1   Lot, low 32 bits
//	nonce word 2   Lot, high 16 bits | Purpose << 16 | sampler << 24
type Stream struct {
	Purpose Purpose
	Lot     uint64 // number of the lot, below MaxLots
	Vector  uint32 // number of the vector within the lot
}

// The limits of one key. Exceeding them is an error; no counter wraps around.
const (
	// MaxLots is the number of lots: 2^48.
	MaxLots = 1 << 48
	// MaxValues is the number of values of one stream for Uint64s, Normals, Normals64 and
	// Laplaces: 2^35.
	MaxValues = 1 << 35
	// MaxDiscrete is the number of values of one stream for DiscreteGaussians: 2^32.
	MaxDiscrete = 1 << 32
	// MaxRounded is the number of values of one stream for RoundedGaussian: 2^33.
	MaxRounded = 1 << 33
)

// sampler is the last byte of the nonce.
type sampler uint8

const (
	uniformSampler sampler = 1 + iota
	normalSampler
	normal64Sampler
	laplaceSampler
	discreteSampler
	roundedSampler // the first words of RoundedGaussian
	roundedDigits  // its further digits
	discreteLaplaceSampler
	permuteAndFlipSampler
)

// NormalsNonce returns the nonce with which Normals computes this stream, for a device that
// computes the same values.
func NormalsNonce(s Stream) ([3]uint32, error) { return s.nonce(normalSampler) }

// RoundedNonces returns the nonces with which RoundedGaussian computes this stream, of the first words
// and of the further digits, for a device that computes the same values.
func RoundedNonces(s Stream) (words, digits [3]uint32, err error) {
	if words, err = s.nonce(roundedSampler); err == nil {
		digits, err = s.nonce(roundedDigits)
	}
	return words, digits, err
}

func (s Stream) nonce(by sampler) ([3]uint32, error) {
	if s.Purpose < Release || s.Purpose > ExampleRandomness {
		return [3]uint32{}, fmt.Errorf("noise: the purpose of a stream is %d: use Release, Sampling or ExampleRandomness", s.Purpose)
	}
	if s.Lot >= MaxLots {
		return [3]uint32{}, fmt.Errorf("noise: lot %d: one key is limited to lots below 2^48: use a new Source", s.Lot)
	}
	return [3]uint32{
		s.Vector,
		uint32(s.Lot),
		uint32(s.Lot>>32) | uint32(s.Purpose)<<16 | uint32(by)<<24,
	}, nil
}

// open checks that the values first … first+n-1 are within the limit and returns the
// generator's state at block 0 of the stream.
func (s *Source) open(st Stream, by sampler, first uint64, n int, limit uint64) (chachaState, error) {
	nonce, err := st.nonce(by)
	if err != nil {
		return chachaState{}, err
	}
	if first > limit || uint64(n) > limit-first {
		return chachaState{}, fmt.Errorf("noise: values %d to %d exceed the %d values of a stream: split the vector", first, first+uint64(n), limit)
	}
	return newState(s.key, nonce), nil
}
