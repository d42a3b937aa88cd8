package lot

import (
	"errors"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/clipping"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// Pipeline feeds a device that computes clip factors itself, so that nothing of a
// microbatch returns to the host.
type Pipeline struct {
	gradients
	Pipeline plan.Pipeline
	clipper  *clipping.Clipper // nil where the run is not private
	counts   plan.LotCounts
}

// newPipeline returns nil where the host must compute clip factors: the device or the
// program does not support it, statistics or weights need each record on the host, or the clipping rule
// is known only as Go code.
func newPipeline(l *Lot, o Options) (*Pipeline, error) {
	p, ok := l.Network.Executable.(plan.Pipeline)
	clipper := l.Mechanism.Clipper
	if !ok || o.OnHost {
		return nil, nil
	}
	var formula clipping.Formula
	if clipper != nil {
		if formula, ok = clipper.Formula(); !ok {
			return nil, nil
		}
	}
	read := o.Train.Read
	if o.Augmented || data.IsSharded(o.Train) {
		read = nil
	}
	err := p.Configure(formula, o.Train.Len(), read)
	if errors.Is(err, plan.ErrNoPipeline) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &Pipeline{gradients: gradients{l}, Pipeline: p, clipper: clipper,
		counts: plan.LotCounts{Within: make([]int, len(formula.Groups))}}, nil
}

// Add queues the first n records of the loader.
func (p *Pipeline) Add(n int) error {
	if err := p.lot.Loader.LoadNext(p.Pipeline, n); err != nil {
		return err
	}
	var bounds []float64
	if p.clipper != nil {
		bounds = p.clipper.Sensitivities()
	}
	return p.Pipeline.Push(n, bounds)
}

// Finish waits for the lot's microbatches and reads their statistics.
func (p *Pipeline) Finish() error {
	records, stats := p.lot.Loader.Loaded, &p.lot.Private
	if err := p.Pipeline.FinishLot(&p.counts); err != nil {
		return err
	}
	stats.Records, stats.Unclipped, stats.Loss = records, p.counts.Unclipped, p.counts.Loss
	if p.clipper != nil {
		p.clipper.SetCounts(records, p.counts.NonFinite, p.counts.Within)
	}
	return nil
}
