package sample

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/noise"
)

// Poisson includes each record in each lot with probability q, independently of
// everything else. It stores nothing for each record.
//
// Guarantee: a record is in the lot if and only if a uniform 64-bit number of its own is
// below ⌈q·2⁶⁴⌉. Event's Rate is ⌈q·2⁶⁴⌉/2⁶⁴ without rounding. This is the probability that
// was used, at least q and less than q + 2⁻⁶⁴, and it must be accounted.
//
// For each record only the top byte of the number is drawn. The other seven bytes are drawn
// if the top byte equals that of the threshold, once in 256 records; otherwise they have no
// effect.
type Poisson struct {
	records int
	public  int // number of records that Event states
	rate    float64
	top     int    // top byte of the threshold; 256 if the threshold is 2⁶⁴
	low     uint64 // the other seven bytes of the threshold

	bytes, ties wordReader
	record      int    // the next record to decide
	pending     uint64 // top bytes of the records from record to the next multiple of 8
}

// NewPoisson returns a sampler that includes each record with the given probability,
// rounded up to a multiple of 2⁻⁶⁴.
func NewPoisson(rate float64, records int, source *noise.Source) (*Poisson, error) {
	return NewPoissonOf(records, rate, records, source)
}

// NewPoissonOf returns a sampler like NewPoisson whose Event states a declared number of
// records instead of the real one, which is private then.
func NewPoissonOf(declared int, rate float64, records int, source *noise.Source) (*Poisson, error) {
	for _, n := range []int{declared, records} {
		if err := checkRecords(n); err != nil {
			return nil, err
		}
	}
	if !(rate > 0 && rate <= 1) {
		return nil, fmt.Errorf("sample: sampling rate %v; use a number greater than 0 and at most 1", rate)
	}
	// Scaling by a power of two is exact. So is Ceil, because a float64 that is not a
	// whole number is below 2⁵³.
	threshold := math.Ceil(math.Ldexp(rate, 64))
	p := &Poisson{records: records, public: declared, rate: math.Ldexp(threshold, -64), record: records}
	if threshold == 0x1p64 {
		p.top = 256
	} else {
		t := uint64(threshold)
		p.top, p.low = int(t>>56), t<<8>>8
	}
	p.bytes.source, p.ties.source = source, source
	return p, nil
}

// Event describes Poisson sampling at the exact rate.
func (p *Poisson) Event() Event {
	return Event{Policy: PolicyPoisson, Rate: p.rate, Records: p.public}
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

// Next copies the lot's next records to dst, in ascending order.
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

// anyBelow reports whether any of the eight bytes of x is below limit, which is at most
// 128. If the high bit of a byte is not set, the subtraction of limit borrows into that bit
// if and only if the byte is below limit. A borrow from the next lower byte occurs only if
// that byte is itself below limit.
func anyBelow(x, limit uint64) bool {
	const ones = 0x0101010101010101
	return (x-ones*limit)&^x&(ones<<7) != 0
}
