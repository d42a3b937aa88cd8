package lattice

import "math/bits"

// Key selects the rounding words of one row. The low half is the first state of a sequence of
// 32-bit words, the high half its step.
//
// The guarantee of a release needs only that rounding words are independent of the noise; they
// need not be secret and may repeat. Accuracy needs more: a rounding error has the mean 0, and
// errors of different elements and of different keys are uncorrelated.
type Key uint64

// RowKey returns the key of one row of one parameter. seed is a word that belongs to one record
// in one lot, drawn from a cryptographic generator; different records have independent seeds.
func RowKey(seed uint64, parameter, row int) Key {
	return Key(mix(mix(seed+uint64(parameter)*goldenGamma) + uint64(row)*goldenGamma))
}

const goldenGamma = 0x9e3779b97f4a7c15

// mix is the bijective finalizer of SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable
// pseudorandom number generators").
func mix(z uint64) uint64 {
	z += goldenGamma
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// A block of elements shares the words of a vector: element l < groupSize uses word l, element
// groupSize+l the same word rotated by 16 bits.
const (
	groupSize = 16
	blockSize = 2 * groupSize
)

// state returns the first state of a key's sequence and its step, which is odd, so that the
// sequence has the period 2^32.
func (k Key) state() (start, step uint32) { return uint32(k), uint32(k>>32) | 1 }

// skip returns the state after the words of n blocks.
func skip(start, step uint32, n int) uint32 { return start + step*groupSize*uint32(n) }

const (
	firstFactor  = 0x7feb352d
	secondFactor = 0x846ca68b
)

// word is the hash lowbias32 (Wellons 2018, "Prospecting for hash functions"), a bijection of
// 32-bit words.
func word(state uint32) uint32 {
	state ^= state >> 16
	state *= firstFactor
	state ^= state >> 15
	state *= secondFactor
	return state ^ state>>16
}

// wordOf returns the rounding word of element i < blockSize of the block that starts with state
// start.
func wordOf(start, step uint32, i int) uint32 {
	w := word(start + step*uint32(i%groupSize))
	if i >= groupSize {
		w = bits.RotateLeft32(w, 16)
	}
	return w
}
