package account

import (
	"slices"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/sample"
)

// CompletePass adds the lots that are missing from an interrupted pass of shuffled lots to a
// history, and returns their number. The ledger states them and the run does
// not compute them: the next pass draws their records.
func CompletePass(h ledger.History, e sample.Event, costOfLot func() ledger.Lot) (ledger.History, int) {
	if e.Policy != sample.PolicyShuffle {
		return h, 0
	}
	drawn := 0
	for _, s := range h.Lots {
		if s.Lot.Sampling.Policy == ledger.Shuffle {
			drawn += s.Count
		}
	}
	pass := (e.Records + e.LotSize - 1) / e.LotSize
	missing := (pass - drawn%pass) % pass
	if missing > 0 {
		h.Lots = append(slices.Clip(h.Lots), ledger.RepeatedLot{Lot: costOfLot(), Count: missing})
	}
	return h, missing
}
