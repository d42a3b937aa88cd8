package random

// NormalBatch is the number of normals computed together. For a range that begins and ends
// at multiples of NormalBatch, no computed value is discarded.
const NormalBatch = 2 * groupWords

const (
	// A pair of normals takes three words, so a batch takes three groups of blocks.
	batchWords  = 3 * groupWords
	batchBlocks = 3 * lanes
)

// Normals fills dst with the standard normals first, first+1, … of the stream.
// The values do not depend on how a range is split into calls. Normals does not
// allocate.
//
// Batch c (normals 512c to 512c+511) takes blocks 48c to 48c+47. Its pair
// 16j+l, for j and l from 0 to 15, takes word j of the blocks 48c+l (hi),
// 48c+16+l (lo) and 48c+32+l (angle); [BoxMuller] transforms them to the normals
// 512c+32j+l and 512c+32j+16+l. BoxMuller's documentation bounds the distance
// from the Gaussian distribution.
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
			var batch [NormalBatch]float32
			groups(words[:batchWords], &in)
			boxMullers(&batch, (*[batchWords]uint32)(words[:]))
			copy(dst, batch[skip:skip+n])
		} else { // two batches if possible: an even number of groups is faster
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

// boxMullersGeneric transforms the words of a batch into its normals.
func boxMullersGeneric(dst *[NormalBatch]float32, words *[batchWords]uint32) {
	for i := range groupWords {
		at := i/lanes*2*lanes + i%lanes
		dst[at], dst[at+lanes] = BoxMuller(words[i], words[groupWords+i], words[2*groupWords+i])
	}
}
