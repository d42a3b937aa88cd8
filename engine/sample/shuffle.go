package sample

import "github.com/dptrain/dptrain/noise"

// Shuffle deals all records into disjoint lots, in a uniformly random order
// that is new in each pass: lot t is part t mod lotsPerPass of pass
// t div lotsPerPass. Every record is in exactly one lot of a pass; the last lot of
// a pass holds what is left and may be smaller. It keeps four bytes per record.
//
// It is not sampling, and must not be accounted as such. That a record appears
// once a pass holds within one source only: a run that goes on with a fresh
// source in the middle of a pass deals the records again, so it must begin the
// next pass and count the broken one as whole.
type Shuffle struct {
	records, lot int
	words        words
	order        []int32
	pass         uint64
	dealt        bool // order is that of pass
	at, end      int  // what is left of the lot in order
}

// NewShuffle deals so many records into lots of the given size.
func NewShuffle(lot, records int, source *noise.Source) (*Shuffle, error) {
	if err := checkLot(lot, records); err != nil {
		return nil, err
	}
	return &Shuffle{records: records, lot: lot, words: words{source: source}, order: make([]int32, records)}, nil
}

// Event is a pass over disjoint lots.
func (s *Shuffle) Event() Event {
	return Event{Policy: PolicyShuffle, LotSize: s.lot, Records: s.records}
}

// lotsPerPass is the number of lots in which each record appears once.
func (s *Shuffle) lotsPerPass() int { return (s.records + s.lot - 1) / s.lot }

// StartLot begins a lot, and shuffles if its pass is another than the last lot's.
func (s *Shuffle) StartLot(lot uint64) error {
	s.at, s.end = 0, 0
	if err := checkNumber(lot); err != nil {
		return err
	}
	lots := uint64(s.lotsPerPass())
	if pass := lot / lots; !s.dealt || pass != s.pass {
		if s.dealt = s.shuffle(pass); !s.dealt {
			return s.words.err
		}
		s.pass = pass
	}
	s.at = int(lot%lots) * s.lot
	s.end = min(s.at+s.lot, s.records)
	return nil
}

// shuffle makes every order equally likely (Fisher and Yates, by Durstenfeld 1964,
// "Algorithm 235"). It starts from the natural order, so that a pass is the same
// whichever passes came before.
func (s *Shuffle) shuffle(pass uint64) bool {
	s.words.open(pass, shuffleWords)
	for i := range s.order {
		s.order[i] = int32(i)
	}
	for i := len(s.order) - 1; i > 0; i-- {
		j := s.words.below(uint64(i) + 1)
		s.order[i], s.order[j] = s.order[j], s.order[i]
	}
	return s.words.err == nil
}

// Next fills dst with the lot's next records, in the order of the pass.
func (s *Shuffle) Next(dst []int) (int, error) {
	n := min(len(dst), s.end-s.at)
	for i, r := range s.order[s.at : s.at+n] {
		dst[i] = int(r)
	}
	s.at += n
	return n, nil
}
