package noise

import "fmt"

// Purpose says what a stream is for, so that noise and choices never meet.
type Purpose uint8

const (
	// Release is the noise added to a released vector.
	Release Purpose = 1 + iota
	// Sampling decides which records make a lot.
	Sampling
	// ExampleRandomness decides how an example is seen: what is dropped of it, how it is changed.
	ExampleRandomness
)

// A Stream names one sequence of values of a Source. Streams that differ in any
// field share no block of the generator, and neither do two samplers (Normals,
// Laplaces, …) of one stream, because all of it is the nonce:
//
//	nonce word 0   Vector
//	nonce word 1   Lot, low 32 bits
//	nonce word 2   Lot, high 16 bits | Purpose << 16 | sampler << 24
type Stream struct {
	Purpose Purpose
	Lot     uint64 // number of the lot, below MaxLots
	Vector  uint32 // number of the vector within the lot
}

// The limits of one key. Asking for more is an error; nothing wraps around.
const (
	// MaxLots is the number of lots: 2^48.
	MaxLots = 1 << 48
	// MaxValues is the number of values that Uint64s, Normals, Normals64 or
	// Laplaces gives in one stream: 2^35.
	MaxValues = 1 << 35
	// MaxDiscrete is the number of values that DiscreteGaussians gives in one
	// stream: 2^32.
	MaxDiscrete = 1 << 32
)

// sampler is the last byte of the nonce.
type sampler uint8

const (
	uniformSampler sampler = 1 + iota
	normalSampler
	normal64Sampler
	laplaceSampler
	discreteSampler
)

// NormalsNonce returns the nonce words from which Normals computes this stream,
// for a device that computes the same values.
func (s Stream) NormalsNonce() ([3]uint32, error) { return s.nonce(normalSampler) }

func (s Stream) nonce(by sampler) ([3]uint32, error) {
	if s.Purpose < Release || s.Purpose > ExampleRandomness {
		return [3]uint32{}, fmt.Errorf("noise: stream of purpose %d: must be Release, Sampling or Variation", s.Purpose)
	}
	if s.Lot >= MaxLots {
		return [3]uint32{}, fmt.Errorf("noise: lot %d: one key serves lots below 2^48; start a fresh Source", s.Lot)
	}
	return [3]uint32{
		s.Vector,
		uint32(s.Lot),
		uint32(s.Lot>>32) | uint32(s.Purpose)<<16 | uint32(by)<<24,
	}, nil
}

// open returns the generator's state at block 0 of the stream, after checking
// that values first … first+n-1 are within the limit.
func (s *Source) open(st Stream, by sampler, first uint64, n int, limit uint64) (chachaState, error) {
	nonce, err := st.nonce(by)
	if err != nil {
		return chachaState{}, err
	}
	if first > limit || uint64(n) > limit-first {
		return chachaState{}, fmt.Errorf("noise: values %d to %d of a stream that has %d: split the vector", first, first+uint64(n), limit)
	}
	return newState(s.key, nonce), nil
}
