package accountant

import "github.com/dptrain/dptrain/accountant/internal/dpevent"

// maxTruncation is the probability of truncating a lot of the default size. A record is then
// in a truncated lot of a run of T lots with probability at most 1e-10·q·T, which is far
// below any usual δ, so that ε is that of Poisson lots.
const maxTruncation = 1e-10

// DefaultMaxLot returns the smallest B for which a Poisson lot of the given rate has more than B
// of the given number of records with a probability of at most 1e-10.
func DefaultMaxLot(rate float64, records int) int {
	low, high := int(float64(records)*rate), records // the answer is above low, or low is 0
	for high-low > 1 {
		middle := low + (high-low)/2
		if p, _ := dpevent.BinomialTail(records, rate, middle+1); p <= maxTruncation {
			high = middle
		} else {
			low = middle
		}
	}
	return max(1, high)
}
