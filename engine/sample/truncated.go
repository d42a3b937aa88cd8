package sample

import (
	"fmt"

	"github.com/dptrain/dptrain/noise"
)

// Truncated draws Poisson lots and truncates them: if more than `most` records were drawn, the
// lot is a uniformly random set of `most` of them (Ganesh 2025, arXiv 2508.15089). It uses
// memory for `most` records.
//
// Guarantee: before truncation a record is drawn as by [Poisson]. All sets of `most` of the drawn
// records are exactly equally likely.
type Truncated struct {
	poisson *Poisson
	most    int
	words   wordReader
	kept    []int
	at      int // the records of kept before it were returned by Next
	block   []int
}

// NewTruncated returns a sampler of lots of at most `most` records, which is at least 1. Its
// Event states the declared number of records instead of the real one, as for [NewPoissonOf].
// The cost is known for at most that number.
func NewTruncated(declared int, rate float64, most, records int, source *noise.Source) (*Truncated, error) {
	poisson, err := NewPoissonOf(declared, rate, records, source)
	switch {
	case err != nil:
		return nil, err
	case poisson.rate == 1:
		return nil, fmt.Errorf("sample: truncated lots at rate 1 have a fixed size; use fixed lots, or a rate below 1")
	case most < 1:
		return nil, fmt.Errorf("sample: truncated lots of at most %d records; give at least 1", most)
	case records > declared:
		return nil, fmt.Errorf("sample: there are more records than the %d that are declared, for which alone the cost of truncated lots is known; declare a larger number (this message depends on private data)", declared)
	}
	return &Truncated{poisson: poisson, most: most, words: wordReader{source: source},
		kept: make([]int, 0, min(most, records)), block: make([]int, 256)}, nil
}

// Event describes truncated Poisson sampling at the exact rate; LotSize is the largest lot.
func (t *Truncated) Event() Event {
	e := t.poisson.Event()
	e.Policy, e.LotSize = PolicyTruncated, t.most
	return e
}

// StartLot draws the lot. It keeps a uniformly random set of the records drawn so far (algorithm
// R, Vitter 1985, "Random sampling with a reservoir"): the k-th record, k > most, takes the place
// of a random one of k, if that is one of the first `most`.
func (t *Truncated) StartLot(lot uint64) error {
	t.kept, t.at = t.kept[:0], 0
	if err := t.poisson.StartLot(lot); err != nil {
		return err
	}
	t.words.open(lot, truncatedWords)
	for drawn, last := 0, false; !last; {
		n, err := t.poisson.Next(t.block)
		if err != nil {
			t.kept = t.kept[:0]
			return err
		}
		last = n < len(t.block)
		for _, record := range t.block[:n] {
			if drawn++; drawn <= t.most {
				t.kept = append(t.kept, record)
			} else if i := t.words.below(uint64(drawn)); i < uint64(t.most) {
				t.kept[i] = record
			}
		}
	}
	if t.words.err != nil {
		t.kept = t.kept[:0]
	}
	return t.words.err
}

// Next copies the lot's next records to dst, in an order that is not random.
func (t *Truncated) Next(dst []int) (int, error) {
	n := copy(dst, t.kept[t.at:])
	t.at += n
	return n, nil
}
