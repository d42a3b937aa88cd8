package lattice

// Key selects the rounding words of one row: the word of element i is start + i·step modulo 2^32,
// where start is the low half of the key and step the high half.
//
// The guarantee of a release needs only that rounding words are independent of the noise; they
// need not be secret and may repeat. Accuracy needs more: a rounding error has the mean 0, and
// errors of different elements and of different keys are uncorrelated. For a uniform key, words
// are uniform, and the upper 33−u bits of the words of any two of 2^u elements are independent
// (Dietzfelbinger 1996, "Universal hashing and k-wise independent random variables via integer
// arithmetic without primes"): for i and j that differ by an odd multiple of 2^k, k < u, and any
// word of i, the word of j is that word plus a uniform multiple of 2^k. Three words are dependent,
// but the variance of a sum of errors depends on pairs only.
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

// blockSize is the number of elements that assembly rounds at a time.
const blockSize = 32

// state returns the word of a key's first element and the distance to the next word.
func (k Key) state() (start, step uint32) { return uint32(k), uint32(k >> 32) }

// newKey returns the key with a state.
func newKey(start, step uint32) Key { return Key(step)<<32 | Key(start) }

// wordOf returns the rounding word of element i of a row whose first word is start.
func wordOf(start, step uint32, i int) uint32 { return start + step*uint32(i) }
