package accountant

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/accountant/ledger"
)

func shuffleNote(a ledger.Adjacency) string {
	return fmt.Sprintf("Shuffled lots are not amplified by sampling: each pass counts as one unsampled release under %s adjacency.", a)
}

// asPoisson returns h with each shuffled lot replaced by a Poisson sample.
func asPoisson(h ledger.History) ledger.History {
	h.Lots = slices.Clone(h.Lots)
	for i, run := range h.Lots {
		if s := run.Lot.Sampling; s.Policy == ledger.Shuffle {
			h.Lots[i].Lot.Sampling = ledger.Sampling{Policy: ledger.Poisson,
				Rate: float64(s.LotSize) / float64(s.Records), Records: s.Records}
		}
	}
	return h
}
