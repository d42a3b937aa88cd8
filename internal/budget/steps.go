package budget

import (
	"math"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// StepsOf returns how many lots of an expected size a number of epochs takes: the nearest
// whole number, and at least 1. A shuffled pass that starts is paid for as a whole.
func StepsOf(epochs float64, policy ledger.Policy, records, lot float64) float64 {
	lots := epochs * records / lot
	if policy == ledger.Shuffle {
		lots = epochs * math.Ceil(records/lot)
	}
	return max(1, math.Round(lots))
}
