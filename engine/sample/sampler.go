package sample

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/noise"
)

// Policy is the method that chooses the records of a lot.
type Policy string

// The policies.
const (
	PolicyPoisson   Policy = "poisson"   // each record independently: see Poisson
	PolicyTruncated Policy = "truncated" // as poisson, with a largest size: see Truncated
	PolicyFixed     Policy = "fixed"     // a set of fixed size: see Fixed
	PolicyShuffle   Policy = "shuffle"   // disjoint lots of a random order: see Shuffle
)

// Event describes to an accountant how a lot was drawn. All of it is public.
type Event struct {
	Policy  Policy
	Rate    float64 // Poisson and Truncated: the exact probability of each record
	LotSize int     // Fixed and Shuffle: number of records in a lot; Truncated: the largest number
	Records int     // number of all records, or the number declared as a public constant
}

// ExpectedLot is the expected size q·N of a lot, or the fixed size. It is the public number
// by which the sum over a lot is divided. For Truncated it is the expected size before
// truncation.
func (e Event) ExpectedLot() float64 {
	if e.Policy == PolicyPoisson || e.Policy == PolicyTruncated {
		return e.Rate * float64(e.Records)
	}
	return float64(e.LotSize)
}

// LotsPerEpoch is the number of lots in which each record occurs once on average. For
// Shuffle it is exact, and the last lot of a pass may be smaller.
func (e Event) LotsPerEpoch() float64 {
	lots := float64(e.Records) / e.ExpectedLot()
	if e.Policy == PolicyShuffle {
		lots = math.Ceil(lots)
	}
	return lots
}

// Sampler draws lots, one at a time. It does not allocate. Only one goroutine at a time may
// use it.
type Sampler interface {
	// Event describes how lots are drawn.
	Event() Event

	// StartLot begins the lot with the given number. It discards the rest of the previous
	// lot.
	StartLot(lot uint64) error

	// Next copies the lot's next records to dst and returns their number. Each record
	// occurs once in a lot. The number is less than len(dst) only at the end of the lot.
	Next(dst []int) (int, error)
}

// maxRecords is the largest number of records to sample from.
const maxRecords = math.MaxInt32

func checkRecords(records int) error {
	if records < 1 || records > maxRecords {
		return fmt.Errorf("sample: %d records; the number must be between 1 and %d", records, maxRecords)
	}
	return nil
}

func checkLot(lot, records int) error {
	if err := checkRecords(records); err != nil {
		return err
	}
	if lot < 1 || lot > records {
		return fmt.Errorf("sample: a lot of %d from %d records; use a lot between 1 and the number of records", lot, records)
	}
	return nil
}

func checkNumber(lot uint64) error {
	if lot >= noise.MaxLots {
		return fmt.Errorf("sample: lot %d: a source is limited to lots below %d; use a new source", lot, uint64(noise.MaxLots))
	}
	return nil
}
