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
	Lot     int     // Fixed and Shuffle: records in a lot
	Records int
}

// ExpectedLot is q·N, or the size of a lot where that is fixed: the public number
// that a sum over the lot is divided by.
func (e Event) ExpectedLot() float64 {
	if e.Policy == PolicyPoisson {
		return e.Rate * float64(e.Records)
	}
	return float64(e.Lot)
}

// Sampler draws lots, one at a time, without allocating. It serves one goroutine.
type Sampler interface {
	Event() Event

	// Start begins a lot; what the last one had left is forgotten.
	Start(lot uint64) error

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
	if lot < 1 || lot > records {
		return fmt.Errorf("sample: a lot of %d from %d records; want a lot between 1 and the number of records", lot, records)
	}
	return nil
}

// words reads a stream of 64-bit uniform words in order.
type words struct {
	source *noise.Source
	stream noise.Stream
	next   uint64 // the first word of the stream that is not in buffer yet
	unread int    // words at the end of buffer that were not read yet
	buffer [128]uint64
	err    error
}

// The streams of a lot (of a pass, for Shuffle), by noise.Stream's Vector.
const (
	poissonBytes = iota
	poissonTies
	fixedWords
	shuffleWords
)

func (w *words) open(lot uint64, vector uint32) {
	w.stream = noise.Stream{Purpose: noise.Sampling, Lot: lot, Vector: vector}
	w.next, w.unread, w.err = 0, 0, nil
}

// word is the next word; after an error it is 0, and err says so.
func (w *words) word() uint64 {
	if w.unread == 0 {
		if w.err == nil {
			w.err = w.source.Uint64s(w.buffer[:], w.stream, w.next)
		}
		if w.err != nil {
			return 0
		}
		w.next += uint64(len(w.buffer))
		w.unread = len(w.buffer)
	}
	x := w.buffer[len(w.buffer)-w.unread]
	w.unread--
	return x
}
