package noise

// NormalBatch is the number of normals computed together. A range that begins and
// ends at multiples of Grain wastes no work.
const NormalBatch = 2 * groupWords

const (
	// Three words make a pair of normals, so three groups of blocks make a grain.
	batchWords  = 3 * groupWords
	batchBlocks = 3 * lanes
)

// Normals fills dst with the standard normals first, first+1, … of the stream.
// However a range is split into calls, its values are the same. It allocates
// nothing.
//
// Grain c (normals 512c to 512c+511) takes blocks 48c to 48c+47. Its pair
// 16j+l, for j and l from 0 to 15, takes word j of the blocks 48c+l (hi),
// 48c+16+l (lo) and 48c+32+l (angle); [BoxMuller] makes of them the normals
// 512c+32j+l and 512c+32j+16+l. BoxMuller's documentation states how far the
// values are from real Gaussian ones.
func (s *Source) Normals(dst []float32, st Stream, first uint64) error {
	in, err := s.open(st, normalSampler, first, len(dst), MaxValues)
	if err != nil {
		return err
	}
	var words [2 * batchWords]uint32
	for len(dst) > 0 {
		in[counterWord] = uint32(first / NormalBatch * batchBlocks)
		skip := int(first % NormalBatch)
		n := min(NormalBatch-skip, len(dst))
		if n < NormalBatch {
			var grain [NormalBatch]float32
			groups(words[:batchWords], &in)
			boxMullers(&grain, (*[batchWords]uint32)(words[:]))
			copy(dst, grain[skip:skip+n])
		} else { // two grains where there are two: an even number of groups is faster
			n = min(2*NormalBatch, len(dst)/NormalBatch*NormalBatch)
			groups(words[:n/NormalBatch*batchWords], &in)
			for i := 0; i < n/NormalBatch; i++ {
				boxMullers((*[NormalBatch]float32)(dst[i*NormalBatch:]), (*[batchWords]uint32)(words[i*batchWords:]))
			}
		}
		dst = dst[n:]
		first += uint64(n)
	}
	return nil
}

// boxMullersGeneric turns the words of a grain into its normals.
func boxMullersGeneric(dst *[NormalBatch]float32, words *[batchWords]uint32) {
	for i := range groupWords {
		at := i/lanes*2*lanes + i%lanes
		dst[at], dst[at+lanes] = BoxMuller(words[i], words[groupWords+i], words[2*groupWords+i])
	}
}
