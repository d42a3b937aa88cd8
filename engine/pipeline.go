package engine

import (
	"errors"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/internal/plan"
)

// follow hands the computing of factors to a device that can do it, so that
// nothing of a microbatch comes back. Statistics need each record on the host, and
// so does a clipping rule that only its own code knows.
func (r *Run) follow() error {
	p, ok := r.machine.(plan.Pipeline)
	if !ok || len(r.config.Statistics) > 0 {
		return nil
	}
	var formula clip.Formula
	if r.mechanism.clipper != nil {
		if formula, ok = r.mechanism.clipper.Formula(); !ok {
			return nil
		}
	}
	read := r.config.Train.Read
	if r.config.Augmentation.Views > 0 {
		read = nil
	}
	err := p.Configure(formula, r.config.Train.Len(), read)
	if errors.Is(err, plan.ErrNoPipeline) {
		return nil
	}
	if err != nil {
		return err
	}
	r.pipeline = p
	r.counts.Within = make([]int, len(formula.Groups))
	return nil
}

// push queues the first n records in the batch.
func (r *Run) push(n int) error {
	b := &r.batch
	b.weights, b.ticket = r.pipeline.ExampleWeights(), r.pipeline.MaskSeed()
	rows := r.pipeline.Rows()
	if rows == nil {
		for k := range b.inputs {
			b.inputs[k] = r.pipeline.Input(k)
		}
	}
	if err := r.fill(n, rows); err != nil {
		return err
	}
	r.private.Records += n
	var bounds []float64
	if r.mechanism.clipper != nil {
		bounds = r.mechanism.clipper.Sensitivities()
	}
	return r.pipeline.Push(n, bounds)
}

// collect reads what the lot's records did.
func (r *Run) collect() error {
	t := &r.counts
	if err := r.pipeline.FinishLot(t); err != nil {
		return err
	}
	r.private.Unclipped, r.private.Loss = t.Unclipped, t.Loss
	if r.mechanism.clipper != nil {
		r.mechanism.clipper.SetCounts(r.private.Records, t.NonFinite, t.Within)
	}
	return nil
}
