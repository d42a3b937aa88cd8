package accountant

import (
	"github.com/dptrain/dptrain/accountant/ledger"
)

// Plan describes the cost of a run before it runs: Steps equal lots.
type Plan struct {
	Sampling ledger.Sampling
	Steps    int
	// Noise is the noise multiplier: one Gaussian group of sensitivity 1 with
	// σ = Noise. If Groups is not empty, Noise multiplies the noise of each group, and
	// 0 means 1.
	Noise     float64
	Groups    []ledger.Query
	Adjacency ledger.Adjacency
}

// History returns the history that a ledger of the run would contain.
func (p Plan) History() ledger.History {
	queries := []ledger.Query{{Group: "all", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: p.Noise}}
	if len(p.Groups) > 0 {
		factor := p.Noise
		if factor == 0 {
			factor = 1
		}
		queries = make([]ledger.Query, len(p.Groups))
		for i, q := range p.Groups {
			queries[i] = q
			queries[i].Noise *= factor
		}
	}
	return ledger.History{
		Header: ledger.Header{Version: 1, Records: p.Sampling.Records, Adjacency: p.Adjacency},
		Lots:   []ledger.RepeatedLot{{Lot: ledger.Lot{Sampling: p.Sampling, Queries: queries}, Count: p.Steps}},
	}
}
