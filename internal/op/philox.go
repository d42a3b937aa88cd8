package op

import "math/bits"

// Philox is the counter-based generator Philox-4x32-10 of Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3" (SC 2011), section 3: four words of 32 bits
// for each counter and key, the same wherever and in whatever order they are
// computed. It is no cipher: it serves what is public, never noise or sampling.
func Philox(c0, c1, c2, c3, k0, k1 uint32) (w0, w1, w2, w3 uint32) {
	for range 10 {
		high0, low0 := bits.Mul32(0xD2511F53, c0)
		high1, low1 := bits.Mul32(0xCD9E8D57, c2)
		c0, c1, c2, c3 = high1^c1^k0, low1, high0^c3^k1, low0
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return c0, c1, c2, c3
}
