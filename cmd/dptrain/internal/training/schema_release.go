package training

import (
	"math"
	"slices"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/engine/data"
)

// schemaRelease is what a lot released for --metric schema.
type schemaRelease struct {
	lot    int
	metric Metric
}

// namesOfShares names the values of the metric schema: see engine.CellShares.
func namesOfShares(columns []string) (names []string) {
	for _, c := range columns {
		names = append(names, c+" does not fit", c+" has no value")
	}
	return append(names, "records that are not blank")
}

// keepSchema keeps the last release.
func (p *Progress) keepSchema(lot int, released []Metric) {
	for _, m := range released {
		if m.Name == settings.SchemaMetric {
			p.schema = &schemaRelease{lot, m}
		}
	}
}

// restoreSchema reads the last release of the lots before a resumed run.
func (p *Progress) restoreSchema() error {
	if p.firstLot == 0 || len(p.spec.Flags.Metrics) == 0 {
		return nil
	}
	lots, _, err := p.earlierLots()
	for _, lot := range lots {
		p.keepSchema(lot.Lot, lot.Released)
	}
	return err
}

// privateSchema returns the released shares of the private data; nil if no lot released them.
func (p *Progress) privateSchema() *rundir.SchemaShares {
	schema := p.spec.Task.Schema
	names := schema.CheckedColumns()
	if p.schema == nil || len(p.schema.metric.Value) != 2*len(names)+1 {
		return nil
	}
	values, noise := p.schema.metric.Value, p.schema.metric.Deviation
	sampling := math.Sqrt(max(0, 1-p.expectedLot/float64(p.run.Describe().Records)) / p.expectedLot)
	present := values[2*len(names)] // of the expected lot
	s := &rundir.SchemaShares{Lot: p.schema.lot, Deviation: noise, Sampling: sampling / 2,
		Blank: 1 - present, BlankDeviation: math.Hypot(noise, sampling)}
	if present > 5*noise { // the size of the lot cancels
		values = slices.Clone(values)
		for j := range values {
			values[j] /= present
		}
		s.Deviation, s.Sampling = noise/present, s.Sampling/math.Sqrt(present)
	}
	for j, name := range names {
		c := rundir.ColumnShares{Column: name, Empty: values[2*j+1]}
		if _, words := schema.Vocabulary[name]; words {
			c.Unknown = values[2*j]
		} else {
			c.Outside = values[2*j]
		}
		s.Columns = append(s.Columns, c)
	}
	return s
}

// announceSchema warns about columns of the private data that certainly do not fit the schema.
func (p *Progress) announceSchema(s *rundir.SchemaShares) {
	if s == nil {
		return
	}
	for _, f := range s.Findings(data.LoudShare) {
		p.term.Warn("%s, by the released shares of the private data: correct the schema", f)
	}
}
