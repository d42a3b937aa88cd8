package accountant

import (
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// Every accountant gives the same answer after some or all Gaussians of a history became
// rounded Gaussians of the same sensitivity and noise.
func TestEpsilon_RoundedGaussianCostsAsGaussian(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(41, 42))
	for range 10 {
		h := randomHistory(r)
		for _, share := range []float64{0.5, 1} {
			rounded := ledger.History{Header: h.Header}
			for _, lot := range h.Lots {
				queries := lot.Lot.Queries
				lot.Lot.Queries = nil
				for _, q := range queries {
					if q.Mechanism == ledger.Gaussian && r.Float64() < share {
						q = ledger.RoundedQuery(q.Group, q.Sensitivity, q.Noise, 1<<22)
					}
					lot.Lot.Queries = append(lot.Lot.Queries, q)
				}
				rounded.Lots = append(rounded.Lots, lot)
			}
			for _, name := range Names() {
				want, wantErr := Epsilon(h, 1e-6, name)
				got, err := Epsilon(rounded, 1e-6, name)
				if got != want || (err == nil) != (wantErr == nil) {
					t.Errorf("%s: %+v, %v, want %+v, %v for\n%+v", name, got, err, want, wantErr, rounded)
				}
			}
		}
	}
}
