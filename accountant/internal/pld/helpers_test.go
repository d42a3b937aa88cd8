package pld

import (
	"math"
	"testing"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/ledger"
)

func checkNear(t *testing.T, what string, got, want, relative float64) {
	t.Helper()
	if !(math.Abs(got-want) <= relative*math.Abs(want)) {
		t.Errorf("%s: got %.12g, want %.12g within %g", what, got, want, relative)
	}
}

func repeatedLot(rate float64, steps int, queries ...ledger.Query) ledger.RepeatedLot {
	return ledger.RepeatedLot{Lot: ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: rate}, Queries: queries}, Count: steps}
}

func truncatedLot(records int, rate float64, most, steps int, noise float64) ledger.RepeatedLot {
	return ledger.RepeatedLot{Lot: ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.Truncated, Rate: rate, LotSize: most, Records: records},
		Queries: []ledger.Query{{Group: "all", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: noise}}}, Count: steps}
}

type upperAndLower struct{ upper, lower float64 }

func epsilonBounds(t *testing.T, h ledger.History, delta float64) upperAndLower {
	t.Helper()
	s, err := dpevent.FromHistory(h)
	if err != nil {
		t.Fatal(err)
	}
	upper, lower, err := Epsilon(s.Events, false, delta)
	if err != nil {
		t.Fatal(err)
	}
	return upperAndLower{upper, lower}
}

func deltaBounds(t *testing.T, h ledger.History, epsilon float64) upperAndLower {
	t.Helper()
	s, err := dpevent.FromHistory(h)
	if err != nil {
		t.Fatal(err)
	}
	upper, lower, err := Delta(s.Events, false, epsilon)
	if err != nil {
		t.Fatal(err)
	}
	return upperAndLower{upper, lower}
}
