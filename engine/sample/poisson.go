package sample

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/noise"
)

// Poisson takes each record into each lot with probability q, independently of
// everything else. It keeps nothing per record.
//
// The promise: a record is in the lot exactly if a uniform 64-bit number of its
// own is below ⌈q·2⁶⁴⌉. Event's Rate is ⌈q·2⁶⁴⌉/2⁶⁴, without rounding: that is
// what was drawn, at least q and less than q + 2⁻⁶⁴, and what must be accounted.
//
// Only the number's top byte is drawn for each record. The other seven are drawn
// when it equals the threshold's, once in 256: they decide nothing otherwise.
type Poisson struct {
	records int
	rate    float64
	top     int    // the threshold's leading byte; 256 if the threshold is 2⁶⁴
	low     uint64 // its other seven bytes

	bytes, ties words
	record      int    // the next to decide
	pending     uint64 // the bytes of the records from there to the next multiple of 8
}

// NewPoisson samples each record with the given probability, rounded up to a
// multiple of 2⁻⁶⁴.
func NewPoisson(rate float64, records int, source *noise.Source) (*Poisson, error) {
	if err := checkRecords(records); err != nil {
		return nil, err
	}
	if !(rate > 0 && rate <= 1) {
		return nil, fmt.Errorf("sample: sampling rate %v, want a number above 0 and at most 1", rate)
	}
	// Scaling by a power of two is exact, and so is Ceil: a float64 that is no
	// whole number is below 2⁵³.
	threshold := math.Ceil(math.Ldexp(rate, 64))
	p := &Poisson{records: records, rate: math.Ldexp(threshold, -64), record: records}
	if threshold == 0x1p64 {
		p.top = 256
	} else {
		t := uint64(threshold)
		p.top, p.low = int(t>>56), t<<8>>8
	}
	p.bytes.source, p.ties.source = source, source
	return p, nil
}

// Event is Poisson sampling at the rate that is drawn.
func (p *Poisson) Event() Event {
	return Event{Policy: PolicyPoisson, Rate: p.rate, Records: p.records}
}

// StartLot begins a lot.
func (p *Poisson) StartLot(lot uint64) error {
	p.record = p.records
	if err := checkNumber(lot); err != nil {
		return err
	}
	p.record = 0
	p.bytes.open(lot, poissonBytes)
	p.ties.open(lot, poissonTies)
	return nil
}

// Next fills dst with the lot's next records, in ascending order.
func (p *Poisson) Next(dst []int) (int, error) {
	n := 0
	for n < len(dst) && p.record < p.records {
		if p.record%8 == 0 {
			p.pending = p.bytes.word()
			if p.top < 128 && !anyBelow(p.pending, uint64(p.top)+1) {
				p.record += 8
				continue
			}
		}
		b := int(p.pending & 0xff)
		p.pending >>= 8
		if b < p.top || b == p.top && p.ties.word()>>8 < p.low {
			dst[n] = p.record
			n++
		}
		p.record++
	}
	if p.bytes.err != nil {
		return 0, p.bytes.err
	}
	if p.ties.err != nil {
		return 0, p.ties.err
	}
	return n, nil
}

// anyBelow tells whether any of the eight bytes of x is below limit, which is at
// most 128. Subtracting limit from each byte without its high bit set borrows
// into that bit exactly if the byte is below; a borrow from the byte beneath can
// only follow from a byte there that is below itself.
func anyBelow(x, limit uint64) bool {
	const ones = 0x0101010101010101
	return (x-ones*limit)&^x&(ones<<7) != 0
}
