package accountant

// Plan is what a run would spend: Steps equal lots.
type Plan struct {
	Sampling Sampling
	Steps    int
	// Noise is the noise multiplier: one Gaussian group of sensitivity 1 with
	// σ = Noise. Where Groups are given it is the factor on the noise of each, and
	// 0 stands for 1.
	Noise     float64
	Groups    []Query
	Adjacency Adjacency
}

// History is the ledger that the plan would leave behind.
func (p Plan) History() History {
	queries := []Query{{Group: "all", Mechanism: Gaussian, Sensitivity: 1, Noise: p.Noise}}
	if len(p.Groups) > 0 {
		factor := p.Noise
		if factor == 0 {
			factor = 1
		}
		queries = make([]Query, len(p.Groups))
		for i, q := range p.Groups {
			queries[i] = q
			queries[i].Noise *= factor
		}
	}
	return History{
		Header: Header{Version: 1, Records: p.Sampling.Records, Adjacency: p.Adjacency},
		Spent:  []Spent{{Lot{p.Sampling, queries}, p.Steps}},
	}
}
