package sample

import "github.com/dptrain/dptrain/noise"

// Shuffle divides all records into disjoint lots in a uniformly random order, with a new
// order in each pass: lot t is part t mod lotsPerPass of pass t div lotsPerPass. Every
// record is in exactly one lot of a pass. The last lot of a pass contains the remaining
// records and may be smaller. Shuffle uses four bytes of memory for each record.
//
// Shuffle is not random sampling and must not be accounted as such. Each record occurs once
// in a pass only within one source. A run that continues with a new source in the middle of
// a pass draws a new order, so it must begin the next pass and count the interrupted pass as
// complete.
type Shuffle struct {
	records, lot int
	words        wordReader
	order        []int32
	pass         uint64
	shuffled     bool // order is the order of pass
	at, end      int  // the rest of the lot in order
}

// NewShuffle returns a sampler that divides the given number of records into lots of the
// given size.
func NewShuffle(lot, records int, source *noise.Source) (*Shuffle, error) {
	if err := checkLot(lot, records); err != nil {
		return nil, err
	}
	return &Shuffle{records: records, lot: lot, words: wordReader{source: source}, order: make([]int32, records)}, nil
}

// Event describes passes of disjoint lots.
func (s *Shuffle) Event() Event {
	return Event{Policy: PolicyShuffle, LotSize: s.lot, Records: s.records}
}

// lotsPerPass is the number of lots in which each record appears once.
func (s *Shuffle) lotsPerPass() int { return (s.records + s.lot - 1) / s.lot }

// StartLot begins a lot. It shuffles if the lot belongs to a different pass from the
// previous lot.
func (s *Shuffle) StartLot(lot uint64) error {
	s.at, s.end = 0, 0
	if err := checkNumber(lot); err != nil {
		return err
	}
	lots := uint64(s.lotsPerPass())
	if pass := lot / lots; !s.shuffled || pass != s.pass {
		if s.shuffled = s.shuffle(pass); !s.shuffled {
			return s.words.err
		}
		s.pass = pass
	}
	s.at = int(lot%lots) * s.lot
	s.end = min(s.at+s.lot, s.records)
	return nil
}

// shuffle makes all orders equally likely (Fisher and Yates; Durstenfeld 1964, "Algorithm
// 235"). It starts from the natural order, so a pass does not depend on the passes before
// it.
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

// Next copies the lot's next records to dst, in the order of the pass.
func (s *Shuffle) Next(dst []int) (int, error) {
	n := min(len(dst), s.end-s.at)
	for i, r := range s.order[s.at : s.at+n] {
		dst[i] = int(r)
	}
	s.at += n
	return n, nil
}
