package accountant

import (
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// scheduledHistory has a million lots, each of a different noise.
func scheduledHistory() ledger.History {
	const n = 1_000_000
	h := ledger.History{Header: ledger.Header{Version: 1, Unit: "example", Records: 60000, Adjacency: ledger.AddRemove, Secure: true}}
	for i := range n {
		lot := ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: 0.01, Records: 60000}, Queries: []ledger.Query{{Group: "all", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 1 + float64(i)/float64(n)}}}
		h.Lots = append(h.Lots, ledger.RepeatedLot{Lot: lot, Count: 1})
	}
	return h
}

// An accountant whose time grew with the square of the number of different lots would
// exceed the time limit of go test here.
func TestEpsilon_MillionDifferentLots(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a million lots, in -short")
	}
	answer, err := Epsilon(scheduledHistory(), 1e-5, "pld")
	if err != nil {
		t.Fatal(err)
	}
	if !(answer.LowerBound > 0 && answer.Epsilon > answer.LowerBound && answer.Epsilon < 1.005*answer.LowerBound) {
		t.Errorf("got %+v", answer)
	}
}

func BenchmarkEpsilon_MillionDifferentLots(b *testing.B) {
	h := scheduledHistory()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Epsilon(h, 1e-5, "pld"); err != nil {
			b.Fatal(err)
		}
	}
}
