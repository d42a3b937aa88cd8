package engine

import (
	"fmt"
	"time"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/internal/network"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/perexample"
)

// compile compiles the network of c and opens it on the device, whose name replaces auto in c.
func (c *Config) compile(index *load.Index, rowsPerRecord int, e sample.Event) (*network.Network, error) {
	note, err := c.Device.resolver().Resolve()
	if err != nil {
		return nil, err
	}
	if err := c.Mechanism.resolveArithmetic(); err != nil {
		return nil, err
	}
	local := c.LocalTraining.Steps > 0
	rank, count := c.rankAndCount()
	o := network.Options{
		Build: c.Network, Check: c.checkNetwork, Device: *c.Device.resolver(), Held: heldBytes(c, index),
		Train: c.Train, Index: index, Event: e,
		RowsPerRecord: rowsPerRecord, Microbatch: c.Microbatch, ConstantWork: c.Sampling.ConstantWork, Rank: rank, Ranks: count,
		Norms: !c.Mechanism.NonPrivate && !local, Exact: c.Mechanism.Arithmetic == ExactArithmetic && !local, L1: c.Mechanism.addsLaplace(),
		Output: len(c.Statistics) > 0, Optimizer: c.Optimization.ofDevice(), Averaged: c.Optimization.Average.Decay > 0,
		KeepFrozen: c.Augmentation.Views == 0 && !local && c.Sampling.Population == 0,
		Reads:      float64(c.Steps) * e.ExpectedLot() * float64(index.PerRecord),
	}
	switch {
	case local:
		o.LocalBatch = c.LocalTraining.Batch
	case !c.Optimization.onHost(): // the host needs the whole gradient
		o.Releasers = c.Ranks
	}
	n, err := network.Compile(o)
	if err != nil {
		return nil, err
	}
	n.DeviceNote = note
	return n, nil
}

// checkNetwork compares the network with the statistics.
func (c *Config) checkNetwork(n *perexample.Network) error {
	for _, s := range c.Statistics {
		if s.Output && n.Output == nil || s.Loss && n.Losses == nil {
			return fmt.Errorf("statistic %s reads outputs or losses that the network does not keep; set Output and Losses of the network", s.Name)
		}
	}
	return c.checkBatchStatistics(n)
}

// heldBytes returns the memory of the data sets as it follows from public numbers: the number of
// records and the declared examples of each.
func heldBytes(c *Config, index *load.Index) int64 {
	bytesOf := func(s data.Set, records int) float64 {
		return float64(records) * float64(index.PerRecord) * float64(data.ExampleBytes(s))
	}
	held := bytesOf(c.Train, c.publicRecords(index.Records))
	if v := c.Validation.Set; v != nil {
		held += bytesOf(v, c.Records.Count(v))
	}
	return int64(min(held, 1<<62))
}

// KeepsFrozenOutputs reports whether the run computes the outputs of frozen first layers once.
func (r *Run) KeepsFrozenOutputs() bool { return r.network.Frozen != nil }

// ObserveFrozenOutputs makes Train call report while it computes the outputs of frozen first layers: at the start
// with 0, after each batch, and at the end with all examples. An error of report ends Train.
func (r *Run) ObserveFrozenOutputs(report func(done, examples int) error) {
	r.network.Frozen.Observe(report)
}

// LoadedRecords returns how many records of the last lot were loaded, also if an error ended it. PRIVATE.
func (r *Run) LoadedRecords() int { return r.lot.Loader.Loaded }

// EstimateFrozenOutputs returns the time that Train takes before its first lot to compute the
// outputs of frozen first layers, which it then keeps in memory; 0 if it keeps none. Train does
// not compute them afterwards, so call this only for a run that is only timed.
func (r *Run) EstimateFrozenOutputs() (time.Duration, error) { return r.network.Frozen.Estimate() }

// resolveArithmetic sets the default, exact arithmetic. A run without privacy adds floating-point
// numbers.
func (m *Mechanism) resolveArithmetic() error {
	switch {
	case m.NonPrivate:
		m.Arithmetic = FloatArithmetic
	case m.Arithmetic == "":
		m.Arithmetic = ExactArithmetic
	case m.Arithmetic != ExactArithmetic && m.Arithmetic != FloatArithmetic:
		return fmt.Errorf("arithmetic %q is unknown: use %s or %s", m.Arithmetic, ExactArithmetic, FloatArithmetic)
	}
	return nil
}
