package engine

import (
	"cmp"
	"math"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// arithmetic returns how the sums of a run are added and noised.
func (c *Config) arithmetic() release.Arithmetic {
	return release.Arithmetic{Exact: c.Mechanism.Arithmetic == ExactArithmetic && !c.Mechanism.NonPrivate,
		PrivateCount: c.Sampling.Population > 0}
}

// mechanism returns the public numbers that the mechanism of a run of c follows from. leastWeight is that
// of release.Settings.
func (c *Config) mechanism(e sample.Event, leastWeight int64) release.Settings {
	return release.Settings{Noise: *c.Mechanism.noise(), Arithmetic: c.arithmetic(), NonPrivate: c.Mechanism.NonPrivate,
		Event: e, Steps: c.Steps, LeastWeight: leastWeight, Releases: c.releases(e.Records)}
}

// releases lists what a run of c over a number of records has yet to release beside gradients. The order
// is that of the streams of noise: the counts behind adaptive bounds, one for each group; the statistics;
// the validation; the projection. Where one is not released, its entry is empty.
func (c *Config) releases(records int) release.List {
	a, list := c.arithmetic(), make(release.List, 0, len(c.Mechanism.Clipping)+len(c.Statistics)+2)
	for _, g := range c.Mechanism.Clipping {
		var e release.Entry
		if q, adaptive := g.Bound.(clip.Quantile); adaptive && !c.Mechanism.NonPrivate && q.Noise > 0 && !math.IsInf(q.Noise, 1) {
			e = release.Entry{Query: a.Query(g.Name+"/unclipped", clip.CountSensitivity, q.Noise, release.CountLattice, records),
				Size: 1, When: release.WithLots, Every: 1, Use: release.MoveBound}
		}
		list = append(list, e)
	}
	for _, s := range c.Statistics {
		e := release.Entry{Size: s.Size, When: release.WithLots, Every: max(1, s.Every), Use: release.ReportMean}
		if c.joins(&s) {
			e.Group, e.Scale = c.groupOf(&s), cmp.Or(s.Scale, 1)
			e.Query = a.Query(s.Name, e.Scale, e.Scale, plan.Bound, 1) // each lot sets it
		} else {
			e.Query = a.Query(s.Name, s.Sensitivity, s.Noise, release.StatisticLattice, records)
		}
		if s.running {
			e.Use = release.MoveRunningStatistics
		}
		list = append(list, e)
	}
	var validation, projection release.Entry
	if v := &c.Validation; v.Set != nil {
		held := c.Records.Count(v.Set)
		validation = release.Entry{Query: a.Query(v.releaseName(), 1, v.Noise, release.StatisticLattice, held),
			Size: 1, When: release.AfterLots, Records: held, Use: release.ScoreWeights}
	}
	if p := &c.Projection; p.Directions > 0 {
		projection = release.Entry{Query: a.Query(secondMomentsGroup, 1, p.Noise, release.ProjectionLattice, records),
			When: release.BeforeLots, Records: records, Use: release.ProjectFeatures}
		if p.released != nil {
			projection.When = release.Never
		}
	}
	return append(list, validation, projection)
}
