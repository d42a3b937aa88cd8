package random

// groupUint64s is the number of 64-bit values in one group of blocks.
const groupUint64s = groupWords / 2

// Uint64s fills dst with the uniform 64-bit values first, first+1, … of the
// stream. The values do not depend on how a range is split into calls.
//
// Value i consists of the words 2i (low) and 2i+1 (high) of the stream's word
// sequence, in which word 256g+16j+l is word j of block 16g+l.
func (s *Source) Uint64s(dst []uint64, st Stream, first uint64) error {
	return s.uint64s(dst, st, uniformSampler, first)
}

func (s *Source) uint64s(dst []uint64, st Stream, by sampler, first uint64) error {
	in, err := s.open(st, by, first, len(dst), MaxValues)
	if err != nil {
		return err
	}
	var words [groupWords]uint32
	for len(dst) > 0 {
		in[counterWord] = uint32(first / groupUint64s * lanes)
		groups(words[:], &in)
		skip := int(first % groupUint64s)
		n := min(groupUint64s-skip, len(dst))
		for i := range dst[:n] {
			k := 2 * (skip + i)
			dst[i] = uint64(words[k]) | uint64(words[k+1])<<32
		}
		dst = dst[n:]
		first += uint64(n)
	}
	return nil
}
