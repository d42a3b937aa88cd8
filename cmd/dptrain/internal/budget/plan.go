package budget

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/engine"
)

// Plan is a plan in the JSON that commands print.
type Plan struct {
	Sampling  string  `json:"sampling"`
	Mechanism string  `json:"mechanism,omitempty"` // "": Gaussian noise
	Rate      float64 `json:"rate"`
	Records   int     `json:"records,omitempty"`
	Lot       int     `json:"lot,omitempty"`
	MaxLot    int     `json:"max_lot,omitempty"`
	Steps     int     `json:"steps"`
	Epochs    float64 `json:"epochs"`
	Noise     float64 `json:"noise_multiplier"`
	Groups    []Group `json:"groups,omitempty"`
}

// Group is the sensitivity and the noise of one group.
type Group struct {
	Sensitivity float64 `json:"sensitivity"`
	Noise       float64 `json:"noise"`
}

// NewPlan converts a plan and fills in the values that follow from others.
func NewPlan(plan accountant.Plan) Plan {
	s := plan.Sampling
	p := Plan{Sampling: string(s.Policy), Rate: s.Rate, Records: s.Records, Lot: s.LotSize, Steps: plan.Steps, Noise: plan.Noise}
	switch s.Policy {
	case ledger.Poisson, ledger.Truncated:
		if p.Lot = 0; s.Policy == ledger.Truncated {
			p.MaxLot = s.LotSize
		}
		if lot := math.Round(s.Rate * float64(s.Records)); lot/float64(s.Records) == s.Rate {
			p.Lot = int(lot)
		}
	case ledger.FixedSize, ledger.Shuffle:
		p.Rate = float64(s.LotSize) / float64(s.Records)
	case ledger.FullBatch:
		p.Rate = 1
	}
	p.Epochs = float64(plan.Steps) / lotsPerEpoch(s)
	if isLaplace(plan) {
		p.Mechanism = string(engine.LaplaceNoise)
		return p
	}
	if len(plan.Groups) > 0 {
		// Several Gaussian groups are one Gaussian query (McMahan et al. 2019, section 3).
		squares := 0.0
		for _, q := range plan.History().Lots[0].Lot.Queries {
			squares += (q.Sensitivity / q.Noise) * (q.Sensitivity / q.Noise)
			p.Groups = append(p.Groups, Group{q.Sensitivity, q.Noise})
		}
		p.Noise = 1 / math.Sqrt(squares)
	}
	return p
}

// isLaplace reports whether a plan has Laplace noise, whose multiplier is the scale over the sensitivity.
func isLaplace(plan accountant.Plan) bool {
	return len(plan.Groups) == 1 && plan.Groups[0].Mechanism == ledger.Laplace
}

// lotsPerEpoch is the number of lots that draw each record once, on average.
func lotsPerEpoch(s ledger.Sampling) float64 {
	switch s.Policy {
	case ledger.Poisson, ledger.Truncated:
		return 1 / s.Rate
	case ledger.FixedSize:
		return float64(s.Records) / float64(s.LotSize)
	case ledger.Shuffle:
		return math.Ceil(float64(s.Records) / float64(s.LotSize))
	}
	return 1
}

// Print writes the rows of a table, except the row of the quantity that was computed.
func (p Plan) Print(w io.Writer, computed Quantity) {
	row := func(name, value string) {
		if name != string(computed) {
			fmt.Fprintf(w, "%s\t%s\n", name, value)
		}
	}
	row("sampling", p.Sampling)
	row("rate", number.RoundDown(p.Rate))
	if p.Records > 0 {
		row("records", strconv.Itoa(p.Records))
	}
	if p.Lot > 0 {
		row("lot", strconv.Itoa(p.Lot))
	}
	if p.MaxLot > 0 {
		row("largest lot", strconv.Itoa(p.MaxLot))
	}
	row("steps", strconv.Itoa(p.Steps))
	row("epochs", strconv.FormatFloat(p.Epochs, 'g', 6, 64))
	if p.Mechanism != "" {
		row("mechanism", p.Mechanism)
	}
	row("noise", number.RoundUp(p.Noise))
	for i, g := range p.Groups {
		row(fmt.Sprintf("group %d", i+1), fmt.Sprintf("sensitivity %g, noise %s", g.Sensitivity, number.RoundUp(g.Noise)))
	}
}
