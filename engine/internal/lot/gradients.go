package lot

import (
	"context"
	"slices"

	"github.com/dptrain/dptrain/engine/internal/load"
)

// gradients adds the clipped gradients of records. The host computes clip factors.
type gradients struct{ lot *Lot }

func (g *gradients) Prepare(context.Context) error { return nil }

func (g *gradients) Start() {}

func (g *gradients) Add(n int) error {
	if err := g.lot.Loader.Load(n, nil); err != nil {
		return err
	}
	return g.addLoaded(n)
}

// addLoaded adds the records that the executable has in its memory.
func (g *gradients) addLoaded(n int) error {
	l, e := g.lot, g.lot.Network.Executable
	if err := e.Forward(); err != nil {
		return err
	}
	if l.Statistics.anyJoint() {
		for i := range n {
			record := l.Loader.ExamplesOf(i)
			markClipped(record, false) // it is not known yet
			if err := l.Statistics.computeJoint(record, i, len(l.Loader.Records), l.Mechanism); err != nil {
				return err
			}
		}
	}
	if err := l.Mechanism.ComputeClipFactors(e, n, l.Loader.RecordWeights(n)); err != nil {
		return err
	}
	if err := g.addStatistics(n); err != nil {
		return err
	}
	return l.addClippedSums()
}

// addStatistics adds the first n records of the microbatch, which have clip factors, to the statistics.
func (g *gradients) addStatistics(n int) error {
	l, factors := g.lot, g.lot.Mechanism.Factors
	isClipped := func(i int) bool { return slices.ContainsFunc(factors, func(f []float32) bool { return f[i] < 1 }) }
	l.Private.Records += n
	for i := range n {
		if !isClipped(i) {
			l.Private.Unclipped++
		}
	}
	if !l.Statistics.any() && l.Loader.Losses == nil {
		return nil
	}
	for i := range n {
		record := l.Loader.ExamplesOf(i)
		markClipped(record, isClipped(i))
		if l.Loader.Losses != nil {
			for _, e := range record {
				l.Private.Loss += float64(e.Loss) / float64(len(record))
			}
		}
		if err := l.Statistics.AddRecord(record); err != nil {
			return err
		}
		l.Statistics.addJoint(i, l.Mechanism)
	}
	return nil
}

// markClipped tells statistics whether the contribution of a record was scaled down.
func markClipped(record []load.Example, clipped bool) {
	for i := range record {
		record[i].Clipped = clipped
	}
}

func (g *gradients) Finish() error { return nil }

func (g *gradients) Release(int) error {
	l := g.lot
	l.Mechanism.Step.Ratio.Weight = l.Loader.LotWeight
	return l.release()
}
