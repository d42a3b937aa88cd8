package sample

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/noise"
)

// Policy says how the records of a lot are chosen.
type Policy string

const (
	PolicyPoisson Policy = "poisson"
	PolicyFixed   Policy = "fixed"
	PolicyShuffle Policy = "shuffle"
)

// Event is what an accountant must know about how a lot was drawn. All of it is
// public.
type Event struct {
	Policy  Policy
	Rate    float64 // Poisson: the probability of each record, exactly as drawn
	LotSize int     // Fixed and Shuffle: records in a lot
	Records int
}

// ExpectedLot is q·N, or the size of a lot where that is fixed: the public number
// that a sum over the lot is divided by.
func (e Event) ExpectedLot() float64 {
	if e.Policy == PolicyPoisson {
		return e.Rate * float64(e.Records)
	}
	return float64(e.LotSize)
}

// LotsPerEpoch is how many lots see each record once: on average or, of Shuffle, whose
// passes may end with a smaller lot, exactly.
func (e Event) LotsPerEpoch() float64 {
	lots := float64(e.Records) / e.ExpectedLot()
	if e.Policy == PolicyShuffle {
		lots = math.Ceil(lots)
	}
	return lots
}

// Sampler draws lots, one at a time, without allocating. It serves one goroutine.
type Sampler interface {
	Event() Event

	// StartLot begins a lot; what the last one had left is forgotten.
	StartLot(lot uint64) error

	// Next fills dst with records of the lot, each once and none that came before,
	// and returns how many they are; fewer than len(dst) only at the lot's end.
	Next(dst []int) (int, error)
}

// maxRecords is the largest number of records to sample from.
const maxRecords = math.MaxInt32

func checkRecords(records int) error {
	if records < 1 || records > maxRecords {
		return fmt.Errorf("sample: %d records, want between 1 and %d", records, maxRecords)
	}
	return nil
}

func checkLot(lot, records int) error {
	if err := checkRecords(records); err != nil {
		return err
	}
	if lot < 1 || lot > records {
		return fmt.Errorf("sample: a lot of %d from %d records; want a lot between 1 and the number of records", lot, records)
	}
	return nil
}

func checkNumber(lot uint64) error {
	if lot >= noise.MaxLots {
		return fmt.Errorf("sample: lot %d: one source serves lots below %d; start a fresh one", lot, uint64(noise.MaxLots))
	}
	return nil
}
