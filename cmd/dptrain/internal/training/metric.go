package training

import (
	"fmt"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/tensorboard"
	"github.com/dptrain/dptrain/engine"
)

// Metric is a released metric of a lot, as metrics.jsonl contains it: public, because it has noise
// and the ledger contains its cost.
type Metric struct {
	Name  string    `json:"metric"`
	Value []float64 `json:"value"` // means over the expected lot; of lot-size the number of records
	// Deviation is the standard deviation of the noise in each value.
	Deviation float64 `json:"deviation"`
	// Of names the values of the metric schema.
	Of []string `json:"of,omitempty"`
}

// releasedMetrics returns the metrics that a lot released; with latest, also those of earlier lots.
func (p *Progress) releasedMetrics(lot *engine.Progress, latest bool) (all []Metric) {
	for _, r := range lot.Released {
		// The running statistics of a network are in its file of weights.
		if r.Lot == 0 || r.Lot != lot.Lot && !latest || r.Name == settings.BatchStatisticsMetric {
			continue
		}
		unit := 1.0
		if r.Name == settings.LotSizeMetric {
			unit = p.expectedLot
		}
		m := Metric{Name: r.Name, Deviation: unit * r.Deviation}
		if r.Name == settings.SchemaMetric {
			m.Of = namesOfShares(p.spec.Task.Schema.CheckedColumns())
		}
		for _, v := range r.Mean {
			m.Value = append(m.Value, unit*v)
		}
		all = append(all, m)
	}
	return all
}

// String formats the metric with its error bar.
func (m Metric) String() string {
	switch {
	case m.Name == settings.SchemaMetric:
		return "shares of cells that do not fit the schema, each " + fmt.Sprintf("± %.1f%% (noise)", 100*m.Deviation)
	case m.Name == "accuracy":
		return "lot accuracy " + rundir.PercentWithNoise(m.Value[0], m.Deviation)
	case len(m.Value) == 1:
		return strings.ReplaceAll(m.Name, "-", " ") + " " + rundir.WithNoise(m.Value[0], m.Deviation)
	}
	return fmt.Sprintf("%s of %s, each ± %.2g (noise)", strings.ReplaceAll(m.Name, "-", " "), number.Plural(len(m.Value), "number"), m.Deviation)
}

// maxPlottedValues is the largest number of values of a metric that TensorBoard shows.
const maxPlottedValues = 32

// scalars returns the metric for TensorBoard: each value, and the standard deviation of their noise.
// Of a metric with many values it shows none.
func (m Metric) scalars() (scalars []tensorboard.Scalar) {
	if len(m.Value) > maxPlottedValues {
		return nil
	}
	tag := "released/" + m.Name
	for i, v := range m.Value {
		name := tag
		if len(m.Value) > 1 {
			name = fmt.Sprintf("%s/%d", tag, i)
		}
		scalars = append(scalars, tensorboard.Scalar{Tag: name, Value: v})
	}
	return append(scalars, tensorboard.Scalar{Tag: tag + "/deviation", Value: m.Deviation})
}
