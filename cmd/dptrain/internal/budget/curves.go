package budget

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"math"
	"slices"
	"strconv"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
)

// Curves are ε against steps, one curve for each accountant.
type Curves struct {
	Out    string    `json:"out"`
	Delta  float64   `json:"delta"`
	At     []int     `json:"at"` // numbers of steps
	Epochs []float64 `json:"at_epochs"`
	Curves []Curve   `json:"curves"`
	Plan
	inEpochs bool // draw ε against epochs
}

// Curve is ε at each of the numbers of steps, by one accountant.
type Curve struct {
	Accountant  string         `json:"accountant"`
	Epsilon     []number.Float `json:"epsilon"`
	Approximate bool           `json:"approximate,omitempty"` // ε is not a bound
	Note        string         `json:"note,omitempty"`        // on the last ε
}

// ComputeCurves computes the curves of some accountants with at most limit points each.
// inEpochs selects the unit of the chart's horizontal axis.
func ComputeCurves(plan accountant.Plan, delta float64, accountants []string, limit int, inEpochs bool) (*Curves, error) {
	c := &Curves{Delta: delta, Plan: NewPlan(plan), inEpochs: inEpochs}
	perEpoch := lotsPerEpoch(plan.Sampling)
	c.At = report.CurvePoints(plan.Steps, limit)
	prefixes := make([]*accountant.Composition, len(c.At))
	for i, steps := range c.At {
		c.Epochs = append(c.Epochs, float64(steps)/perEpoch)
		plan.Steps = steps
		prefixes[i] = accountant.Compose(plan.History())
	}
	for _, name := range accountants {
		curve, err := computeCurve(prefixes, delta, name)
		if err != nil {
			return nil, err
		}
		c.Curves = append(c.Curves, curve)
	}
	return c, nil
}

// computeCurve computes ε for increasing prefixes of a run, and the note on the last one.
func computeCurve(prefixes []*accountant.Composition, delta float64, name string) (Curve, error) {
	curve := Curve{Accountant: name, Epsilon: make([]number.Float, len(prefixes))}
	for i, p := range prefixes {
		epsilon, err := p.ProvenEpsilon(delta, name)
		if err != nil {
			return curve, err
		}
		curve.Epsilon[i] = number.Float(epsilon)
	}
	last, err := prefixes[len(prefixes)-1].Epsilon(delta, name)
	curve.Approximate, curve.Note = last.Approximate, last.Note
	return curve, err
}

// Last is the ε of the whole plan.
func (c Curve) Last() float64 { return float64(c.Epsilon[len(c.Epsilon)-1]) }

// table writes the curves as CSV.
func (c *Curves) table() ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	row := []string{"steps", "epochs"}
	for _, curve := range c.Curves {
		row = append(row, curve.Accountant)
	}
	w.Write(row)
	for i, steps := range c.At {
		row = append(row[:0], strconv.Itoa(steps), strconv.FormatFloat(c.Epochs[i], 'g', -1, 64))
		for _, curve := range c.Curves {
			row = append(row, strconv.FormatFloat(float64(curve.Epsilon[i]), 'g', -1, 64))
		}
		w.Write(row)
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

// costliestFirst sorts the curves by their last ε.
func (c *Curves) costliestFirst() []Curve {
	return slices.SortedStableFunc(slices.Values(c.Curves), func(a, b Curve) int { return cmp.Compare(b.Last(), a.Last()) })
}

// lastRatio is the ratio of the largest to the smallest last ε.
func (c *Curves) lastRatio() float64 {
	smallest, largest := math.Inf(1), 0.0
	for _, curve := range c.Curves {
		if last := curve.Last(); !math.IsInf(last, 1) && last > 0 {
			smallest, largest = min(smallest, last), max(largest, last)
		}
	}
	return largest / smallest
}

// logarithmicMin is the lower limit of a logarithmic axis: the smallest ε at the tenth
// point, because the first steps cost little.
func (c *Curves) logarithmicMin() float64 {
	low := math.Inf(1)
	for _, curve := range c.Curves {
		if epsilon := float64(curve.Epsilon[min(9, len(curve.Epsilon)-1)]); epsilon > 0 {
			low = min(low, epsilon)
		}
	}
	return low
}
