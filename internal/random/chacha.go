package random

import "math/bits"

// chachaState is the input of ChaCha20's block function (RFC 8439, section 2.3): four
// constants, the key, the block counter (word 12) and the nonce.
type chachaState [16]uint32

const counterWord = 12

func newState(key Key, nonce [3]uint32) chachaState {
	s := chachaState{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574} // "expand 32-byte k"
	copy(s[4:], key[:])
	copy(s[13:], nonce[:])
	return s
}

// A group is a number of consecutive key-stream blocks equal to lanes. Its words are stored
// lane-major: word j of block l of the group is at 16j+l. This is the layout in SIMD
// registers, so no sampler transposes.
const (
	lanes      = 16
	groupWords = 16 * lanes
)

// groupsGeneric writes the next len(dst)/groupWords groups of the key stream, from the block
// at the state's counter.
func groupsGeneric(dst []uint32, s *chachaState) {
	in := *s
	for ; len(dst) >= groupWords; dst = dst[groupWords:] {
		for l := range lanes {
			out := chachaBlock(&in)
			for j, w := range out {
				dst[j*lanes+l] = w
			}
			in[counterWord]++
		}
	}
}

// chachaBlock is the ChaCha20 block function. It returns words.
func chachaBlock(s *chachaState) chachaState {
	x := *s
	for range 10 {
		x[0], x[4], x[8], x[12] = quarterRound(x[0], x[4], x[8], x[12])
		x[1], x[5], x[9], x[13] = quarterRound(x[1], x[5], x[9], x[13])
		x[2], x[6], x[10], x[14] = quarterRound(x[2], x[6], x[10], x[14])
		x[3], x[7], x[11], x[15] = quarterRound(x[3], x[7], x[11], x[15])
		x[0], x[5], x[10], x[15] = quarterRound(x[0], x[5], x[10], x[15])
		x[1], x[6], x[11], x[12] = quarterRound(x[1], x[6], x[11], x[12])
		x[2], x[7], x[8], x[13] = quarterRound(x[2], x[7], x[8], x[13])
		x[3], x[4], x[9], x[14] = quarterRound(x[3], x[4], x[9], x[14])
	}
	for i := range x {
		x[i] += s[i]
	}
	return x
}

func quarterRound(a, b, c, d uint32) (uint32, uint32, uint32, uint32) {
	a += b
	d = bits.RotateLeft32(d^a, 16)
	c += d
	b = bits.RotateLeft32(b^c, 12)
	a += b
	d = bits.RotateLeft32(d^a, 8)
	c += d
	b = bits.RotateLeft32(b^c, 7)
	return a, b, c, d
}
