package sample

import (
	"math/bits"

	"github.com/dptrain/dptrain/noise"
)

// Fixed draws each lot independently: all sets of the given size are exactly equally
// likely. It uses one bit of memory for each record.
type Fixed struct {
	records, lot int
	words        wordReader
	chosen       []uint64 // one bit for each record: in the lot and not yet returned by Next
	at           int      // the elements of chosen before it are zero
}

// NewFixed returns a sampler of lots of the given size from the given number of records.
func NewFixed(lot, records int, source *noise.Source) (*Fixed, error) {
	if err := checkLot(lot, records); err != nil {
		return nil, err
	}
	return &Fixed{records: records, lot: lot, words: wordReader{source: source}, chosen: make([]uint64, (records+63)/64)}, nil
}

// Event describes sampling without replacement.
func (f *Fixed) Event() Event {
	return Event{Policy: PolicyFixed, LotSize: f.lot, Records: f.records}
}

// StartLot draws the lot by Floyd's method (Bentley and Floyd 1987, "A sample of
// brilliance"): for each of the last records j, it chooses a uniform record up to j, or j
// itself if that record is already chosen. All sets are equally likely, and each member
// needs one draw.
func (f *Fixed) StartLot(lot uint64) error {
	clear(f.chosen)
	f.at = 0
	if err := checkNumber(lot); err != nil {
		return err
	}
	f.words.open(lot, fixedWords)
	for j := f.records - f.lot; j < f.records; j++ {
		i := f.words.below(uint64(j) + 1)
		if f.chosen[i/64]>>(i%64)&1 != 0 {
			i = uint64(j)
		}
		f.chosen[i/64] |= 1 << (i % 64)
	}
	if f.words.err != nil {
		clear(f.chosen)
	}
	return f.words.err
}

// Next copies the lot's next records to dst, in ascending order.
func (f *Fixed) Next(dst []int) (int, error) {
	n := 0
	for n < len(dst) && f.at < len(f.chosen) {
		left := f.chosen[f.at]
		if left == 0 {
			f.at++
			continue
		}
		dst[n] = f.at*64 + bits.TrailingZeros64(left)
		f.chosen[f.at] = left & (left - 1)
		n++
	}
	return n, nil
}
