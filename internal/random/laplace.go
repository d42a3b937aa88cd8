package random

import "math"

// Laplaces fills dst with the values first, first+1, … of the stream of the
// Laplace distribution of scale 1, whose density is exp(-|x|)/2. The values do not depend on
// how a range is split into calls.
//
// Value i is ±(-ln u), computed from the stream's 64-bit value i: bit 63 is the sign, and
// the other 63 bits are t, for the cell [t, t+1]/2^63 that contains u. Coupled with a u that
// is uniform in its cell, as in [BoxMuller], the value differs from a real Laplace value by
// at most 4·2^-53·|x| + 1/t, and reaches 45. This is a
// floating-point sampler: the last bits of a sum with such noise can reveal the record
// (Mironov, CCS 2012). Round the sum to a grid before releasing it.
func (s *Source) Laplaces(dst []float64, st Stream, first uint64) error {
	if _, err := s.open(st, laplaceSampler, first, len(dst), MaxValues); err != nil {
		return err
	}
	var words [groupUint64s]uint64
	for len(dst) > 0 {
		n := min(groupUint64s-int(first%groupUint64s), len(dst))
		if err := s.uint64s(words[:n], st, laplaceSampler, first); err != nil {
			return err
		}
		for i, w := range words[:n] {
			dst[i] = math.Float64frombits(math.Float64bits(negativeLog(w<<1)) | w&(1<<63))
		}
		dst = dst[n:]
		first += uint64(n)
	}
	return nil
}
