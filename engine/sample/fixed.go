package sample

import (
	"math/bits"

	"github.com/dptrain/dptrain/noise"
)

// Fixed draws each lot afresh: all sets of the given size are equally likely,
// exactly. It keeps one bit per record.
type Fixed struct {
	records, lot int
	words        words
	chosen       []uint64 // one bit a record: in the lot and not yet handed out
	at           int      // chosen is zero before it
}

// NewFixed draws lots of the given size from so many records.
func NewFixed(lot, records int, source *noise.Source) (*Fixed, error) {
	if err := checkLot(lot, records); err != nil {
		return nil, err
	}
	return &Fixed{records: records, lot: lot, words: words{source: source}, chosen: make([]uint64, (records+63)/64)}, nil
}

// Event is sampling without replacement.
func (f *Fixed) Event() Event {
	return Event{Policy: PolicyFixed, LotSize: f.lot, Records: f.records}
}

// StartLot draws the lot, by Floyd's method (Bentley and Floyd 1987, "A sample of
// brilliance"): for j among the last records, a uniform record up to j is chosen,
// or j where that one was chosen already. It makes every set equally likely and
// needs one draw a member.
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

// Next fills dst with the lot's next records, in ascending order.
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
