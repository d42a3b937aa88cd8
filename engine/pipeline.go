package engine

import (
	"errors"

	"github.com/dptrain/dptrain/internal/clipping"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// pipelineDriver feeds a device that computes clip factors itself, so that nothing of a
// microbatch returns to the host.
type pipelineDriver struct {
	*gradientLots
	pipeline plan.Pipeline
	clipper  *clipping.Clipper // nil where the run is not private
	counts   plan.LotCounts
}

// newPipelineDriver returns nil where the host must compute clip factors: the device or the
// program does not support it, statistics or weights need each record on the host, or the clipping rule
// is known only as Go code.
func newPipelineDriver(c *Config, plain *gradientLots) (*pipelineDriver, error) {
	p, ok := plain.network.executable.(plan.Pipeline)
	clipper := plain.mechanism.clipper
	if !ok || len(c.Statistics) > 0 || c.isWeighted() {
		return nil, nil
	}
	var formula clipping.Formula
	if clipper != nil {
		if formula, ok = clipper.Formula(); !ok {
			return nil, nil
		}
	}
	read := c.Train.Read
	if c.Augmentation.Views > 0 {
		read = nil
	}
	err := p.Configure(formula, c.Train.Len(), read)
	if errors.Is(err, plan.ErrNoPipeline) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &pipelineDriver{gradientLots: plain, pipeline: p, clipper: clipper,
		counts: plan.LotCounts{Within: make([]int, len(formula.Groups))}}, nil
}

// add queues the first n records of the loader.
func (p *pipelineDriver) add(n int) error {
	if err := p.loader.LoadNext(p.pipeline, n); err != nil {
		return err
	}
	var bounds []float64
	if p.clipper != nil {
		bounds = p.clipper.Sensitivities()
	}
	return p.pipeline.Push(n, bounds)
}

// finish waits for the lot's microbatches and reads their statistics.
func (p *pipelineDriver) finish() error {
	records, stats := p.loader.Loaded, &p.statistics.private
	if err := p.pipeline.FinishLot(&p.counts); err != nil {
		return err
	}
	stats.Records, stats.Unclipped, stats.Loss = records, p.counts.Unclipped, p.counts.Loss
	if p.clipper != nil {
		p.clipper.SetCounts(records, p.counts.NonFinite, p.counts.Within)
	}
	return nil
}
