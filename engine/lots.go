package engine

import (
	"context"

	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/internal/state"
)

// lotMethod is a way to compute a lot: how the contributions of its microbatches are added up, and how
// their sums become a step. The run draws the records and writes the ledger.
type lotMethod interface {
	// prepare computes what all lots read, before the first one. The end of ctx interrupts it.
	prepare(ctx context.Context) error
	// start begins a lot. What changes the state must wait until checkpoints have read it; nil: there
	// are none.
	start(checkpoints *state.Writer)
	// add adds the contributions of the first n records of the loader.
	add(n int) error
	// finish returns when all records of the lot are added.
	finish() error
	// release takes a step with the noised sums. The ledger on disk contains the lot.
	release(step int) error
}

// newLotMethod returns the way to compute the lots of c. plain is the one that every device has.
func newLotMethod(c *Config, plain *gradientLots, local *localTrainer) (lotMethod, error) {
	switch {
	case local != nil:
		return local, nil
	case plain.network.frozen != nil:
		return &frozenLots{plain}, nil
	case c.awaitsProjection(): // another network is compiled before the first lot
		return plain, nil
	}
	pipeline, err := newPipelineDriver(c, plain)
	if err != nil || pipeline != nil {
		return pipeline, err
	}
	return plain, nil
}

// gradientLots adds the clipped gradients of records. The host computes clip factors.
type gradientLots struct {
	loader     *load.Loader
	network    *compiledNetwork
	mechanism  *mechanism
	statistics *lotStatistics
}

func (g *gradientLots) prepare(context.Context) error { return nil }

func (g *gradientLots) start(*state.Writer) {}

func (g *gradientLots) add(n int) error {
	if err := g.loader.Load(n, nil); err != nil {
		return err
	}
	return g.addLoaded(n)
}

// addLoaded adds the records that the executable has in its memory.
func (g *gradientLots) addLoaded(n int) error {
	e := g.network.executable
	if err := e.Forward(); err != nil {
		return err
	}
	if err := g.mechanism.computeClipFactors(e, n, g.loader.RecordWeights(n)); err != nil {
		return err
	}
	if err := g.statistics.addMicrobatch(g.loader, n, g.mechanism.factors); err != nil {
		return err
	}
	return e.AddClippedSums()
}

func (g *gradientLots) finish() error { return nil }

func (g *gradientLots) release(int) error {
	g.mechanism.release.Ratio.Weight = g.loader.LotWeight
	return g.network.executable.Release(&g.mechanism.release)
}

// frozenLots is gradientLots of a program that reads the outputs of frozen first layers.
type frozenLots struct {
	*gradientLots
}

func (f *frozenLots) prepare(ctx context.Context) error { return f.network.frozen.Compute(ctx) }

func (f *frozenLots) add(n int) error {
	if err := f.loader.Load(n, nil); err != nil {
		return err
	}
	f.network.frozen.Read(f.network.outputs, f.loader.LoadedRows(n))
	return f.addLoaded(n)
}
