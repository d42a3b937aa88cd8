package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// releasedMetric has the keys of a released metric in metrics.jsonl.
type releasedMetric struct {
	Name      string    `json:"metric"`
	Value     []float64 `json:"value"`
	Deviation float64   `json:"deviation"`
	Of        []string  `json:"of"` // names of the values; nil for most metrics
}

// maxListedValues is the largest number of values of a metric that the page lists.
const maxListedValues = 32

// metricsSection shows the metrics that lots released with noise.
type metricsSection struct {
	Charts []*chart // of the metrics with one value
	Last   []row    // the last release of each metric
}

// metricsSection returns nil if no lot released a metric.
func (r *Run) metricsSection() *metricsSection {
	s := &metricsSection{}
	var names []string
	last := map[string]row{}
	for _, p := range r.points {
		for _, m := range p.Released {
			if len(m.Value) == 0 {
				continue
			}
			if !slices.Contains(names, m.Name) {
				names = append(names, m.Name)
			}
			last[m.Name] = row{fmt.Sprintf("%s, lot %s", spaced(m.Name), number.Thousands(p.Lot)), r.summary.describeMetric(m)}
		}
	}
	for _, name := range names {
		s.Last = append(s.Last, last[name])
		if c := r.metricChart(name); c != nil {
			s.Charts = append(s.Charts, c)
		}
	}
	if names == nil {
		return nil
	}
	return s
}

func spaced(name string) string { return strings.ReplaceAll(name, "-", " ") }

// describeMetric formats the values of a metric with the standard deviation of their noise.
func (s *summary) describeMetric(m releasedMetric) string {
	noise := fmt.Sprintf(" ± %s of noise", number.Short(m.Deviation))
	switch {
	case len(m.Value) == 1:
		return number.Short(m.Value[0]) + noise
	case len(m.Value) > maxListedValues:
		return plural(len(m.Value), "value") + ", each" + noise + "; metrics.jsonl contains them"
	}
	var parts []string
	for i, v := range m.Value {
		part := number.Short(v)
		switch {
		case m.Name == "class-counts":
			part = s.className(i) + ": " + part
		case i < len(m.Of):
			part = m.Of[i] + ": " + part
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ") + ", each" + noise
}

// metricChart draws a metric with one value over lots, with error bars of two standard deviations
// of its noise; nil for others and for a single release.
func (r *Run) metricChart(name string) *chart {
	var points [][2]float64
	var deviations []float64
	least, most := math.Inf(1), math.Inf(-1)
	for _, p := range r.points {
		for _, m := range p.Released {
			if m.Name == name && len(m.Value) == 1 {
				v := m.Value[0]
				points, deviations = append(points, [2]float64{float64(p.Lot), v}), append(deviations, m.Deviation)
				least, most = min(least, v-2*m.Deviation), max(most, v+2*m.Deviation)
			}
		}
	}
	if len(points) < 2 || !(most > least) || math.IsInf(most-least, 0) {
		return nil
	}
	margin := (most - least) * 0.08
	x, y := horizontalAxis(0, points[len(points)-1][0]*1.04), verticalAxis(least-margin, most+margin)
	c := newChart("metric-"+name, x, y, tickLabel)
	c.Title, c.XLabel, c.YLabel = spaced(name)+" of the lots' records", "lots", spaced(name)
	l := line{Style: "measured", Path: svgPath(x, y, points)}
	var bars strings.Builder
	for i, p := range points {
		bars.WriteString(svgPath(x, y, [][2]float64{{p[0], p[1] - 2*deviations[i]}, {p[0], p[1] + 2*deviations[i]}}))
		l.Dots = append(l.Dots, dot{x.Position(p[0]), y.Position(p[1]),
			fmt.Sprintf("%s ± %s of noise at lot %.0f", number.Short(p[1]), number.Short(deviations[i]), p[0])})
	}
	c.About = "Line chart with error bars from " + l.Dots[0].Title + " to " + l.Dots[len(points)-1].Title + "."
	c.Lines = []line{{Style: "error", Path: bars.String()}, l}
	return c
}
