package lot

import (
	"context"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/internal/network"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/ranks"
	"github.com/dptrain/dptrain/noise"
)

// Method is a way to compute a lot: how the contributions of its records are added up, and how their sums
// become a step.
type Method interface {
	// Prepare computes what all lots read, before the first one. The end of ctx interrupts it.
	Prepare(ctx context.Context) error
	// Start begins a lot.
	Start()
	// Add adds the contributions of the first n records of the loader.
	Add(n int) error
	// Finish returns when all records of the lot are added.
	Finish() error
	// Release takes a step with the noised sums. The ledger on disk contains the lot.
	Release(step int) error
}

// Parts are what a lot is computed with.
type Parts struct {
	Ranks     ranks.Communicator // that compute the lots together; nil: this process alone
	Mechanism *release.Mechanism
	Sums      *release.Sums // of what is released beside gradients
	Source    *noise.Source

	// The rest is nil where the caller adds vectors.
	Index      *load.Index
	Loader     *load.Loader
	Network    *network.Network
	Statistics *Statistics
	Optimizer  *Optimizer   // nil where the device computes the optimizer
	Average    plan.Average // of the running statistics
	Least      int          // microbatches of each lot
}

// Options select the method.
type Options struct {
	Train     data.Set
	Augmented bool  // the loader changes examples, so a device cannot read them itself
	OnHost    bool  // the host computes clip factors where a device could: each record is read, or has a weight
	Local     Local // steps of each user in a lot; Steps 0: users contribute gradients
}

// Lot sums and releases one lot after another.
type Lot struct {
	Parts
	Method  Method
	Private Private // of the last lot
	ranks   ranksMemory
}

// Private describes a lot that was released. It is a function of the records that no noise protects: who
// publishes it gives up the guarantee.
type Private struct {
	Records   int     // in the lot as drawn, without blank records
	NonFinite int     // records without a contribution, because their gradient was NaN or infinite
	Unclipped int     // records whose gradient was not scaled down
	Reduced   int     // parts of contributions that were rounded again, with a smaller factor, to stay within the bound
	Omitted   int     // parts of contributions that exceeded the bound again and were left out
	Loss      float64 // mean over the lot's records; 0 where the network keeps no losses. Before the release it is their sum
}

// New returns lots of a network's gradients or, with local steps, of changes of its weights.
func New(p Parts, o Options) (*Lot, error) {
	l := &Lot{Parts: p}
	if err := l.prepareRanks(o); err != nil {
		return nil, err
	}
	l.Statistics.startLot(0, l.Mechanism)
	switch {
	case o.Local.Steps > 0:
		l.Method = newLocalSteps(l, o.Local, o.Train)
		return l, nil
	case p.Network.Frozen != nil:
		l.Method = &frozenOutputs{gradients{l}}
		return l, nil
	}
	pipeline, err := newPipeline(l, o)
	if l.Method = pipeline; pipeline == nil {
		l.Method = &gradients{l}
	}
	return l, err
}

// NewOfVectors returns lots of vectors that the caller adds by AddVectors.
func NewOfVectors(p Parts) *Lot {
	l := &Lot{Parts: p}
	l.Method = &vectors{l}
	return l
}

// Sum draws the lot of a step and adds up what its records contribute. draw is the number of lots that the
// sampler drew before.
func (l *Lot) Sum(s sample.Sampler, draw, step int) error {
	l.Private = Private{}
	l.Statistics.startLot(step, l.Mechanism)
	l.Loader.StartLot(step)
	l.Method.Start()
	err := s.StartLot(uint64(draw))
	if err == nil {
		err = l.addRecords(s)
	}
	if err == nil {
		err = l.Method.Finish()
	}
	return l.finish(step, err)
}

// addRecords adds the records of the lot that this process computes.
func (l *Lot) addRecords(s sample.Sampler) error {
	if l.Ranks != nil {
		return l.addOwnRecords(s)
	}
	records := l.Loader.Records
	for microbatch := 1; ; microbatch++ {
		n, err := s.Next(records)
		if err != nil {
			return err
		}
		loaded := l.Index.WithoutBlank(records[:n])
		if len(loaded) > 0 || microbatch <= l.Least {
			if err := l.Method.Add(len(loaded)); err != nil {
				return err
			}
		}
		if n < len(records) && microbatch >= l.Least {
			return nil
		}
	}
}

// Finish completes the sums of a lot, after its last record and before its noise, for every method. From
// here on the integers of the lot are final: those of the method (in the executable, or in
// Mechanism.Vectors), those of Sums, and the weight of the lot. Whoever adds the parts of a lot that other
// processes have summed does it here, and nowhere else.
func (l *Lot) Finish(step int) error { return l.finish(step, l.Method.Finish()) }

// finish is Finish after the method has finished with an error or without.
func (l *Lot) finish(step int, err error) error {
	if l.Ranks != nil {
		err = l.combine(step, err)
	}
	if err != nil {
		return err
	}
	for i := range l.Sums.List {
		if e := &l.Sums.List[i]; e.Use == release.MoveBound && e.IsDue(step) {
			l.Sums.Sum(i).SetTotal(l.Mechanism.Clipper.QuantileCount(i))
		}
	}
	return nil
}

// Release adds noise to the sums of the lot of a step, which become a step with this learning rate, and to
// what the lot releases beside them. The ledger on disk contains the lot.
func (l *Lot) Release(step int, rate float64) error {
	m := l.Mechanism
	m.Step.Lot, m.Step.Step = uint64(step), step+1
	if l.Optimizer == nil {
		m.Step.Rate = rate
	}
	if err := l.Method.Release(step); err != nil {
		return err
	}
	if l.Optimizer != nil {
		if err := l.Optimizer.update(m, rate); err != nil {
			return err
		}
	}
	if err := l.releaseSums(step); err != nil {
		return err
	}
	if m.Clipper != nil {
		l.Private.NonFinite = m.Clipper.ExcludedRecords()
	}
	if c := m.Contributions; c != nil {
		l.Private.Reduced, l.Private.Omitted = c.Reduced, c.Omitted
		c.Reduced, c.Omitted = 0, 0
	}
	if n := l.Private.Records; n > 0 {
		l.Private.Loss /= float64(n)
	}
	return nil
}

// releaseSums releases what the lot releases beside gradients, and does with each result what its entry
// says.
func (l *Lot) releaseSums(step int) error {
	expected := l.Mechanism.Event.ExpectedLot()
	for i := range l.Sums.List {
		e := &l.Sums.List[i]
		if !e.IsDue(step) {
			continue
		}
		result, err := l.Sums.Release(i, step)
		if err != nil {
			return err
		}
		if e.Use == release.MoveBound {
			if err := l.Mechanism.Clipper.UpdateBound(i, result[0], expected); err != nil {
				return err
			}
			continue
		}
		for k := range result {
			result[k] /= expected
		}
		if e.Use == release.MoveRunningStatistics {
			l.Network.Running.Update(result, e.Query.Noise/expected, (step+1)/e.Every)
		}
	}
	if l.Network == nil {
		return nil
	}
	return l.Network.Running.UpdateAverage(l.Average, step+1)
}
