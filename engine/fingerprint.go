package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/network"
	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/engine/sample"
)

// filterOrderEntry is the name of the entry that Resume reads of runs with a filter.
const filterOrderEntry = "order of the filter"

// fingerprint lists the public settings of the run which must be equal for Resume to continue it.
func (r *Run) fingerprint() (state.Fingerprint, error) {
	c, program := &r.config, r.network.Program
	var f state.Fingerprint
	note := func(name, format string, values ...any) {
		f = append(f, state.Entry{Name: name, Value: fmt.Sprintf(format, values...)})
	}
	note("private", "%v", !c.Mechanism.NonPrivate)
	note("unit", "%s of at most %d examples", c.Records.Unit(), r.index.PerRecord)
	note("records", "%d", r.Event().Records)
	if n := c.Sampling.Population; n > 0 {
		note("population", "%d", n)
	}
	if c.Sampling.ReplaceOne {
		note("adjacency", "%s", c.Sampling.Adjacency())
	}
	for _, column := range c.Train.Columns() {
		note("column "+column.Name, "%v %v", column.Kind, column.Shape)
		if column.Kind == data.Label || column.Kind == data.Index {
			note("classes of "+column.Name, "%d", column.Classes)
		}
	}
	for _, v := range program.Parameters {
		note("parameter "+v.Name, "%v", v.Shape)
	}
	build, err := c.unreleasedNetwork() // without the directions of a projection
	if err != nil {
		return nil, err
	}
	operations, constants, err := network.Digests(build, program, false)
	if err != nil {
		return nil, err
	}
	r.constants = constants
	note("operations of the network", "%s", operations)
	note("frozen weights and other constants of the network", "%s", constants)
	e := r.Event()
	note("sampling", "%s", e.Policy)
	note("expected lot", "%.9g", e.ExpectedLot())
	if e.Policy == sample.PolicyTruncated {
		note("largest lot", "%d", e.LotSize)
	}
	if !c.Mechanism.NonPrivate {
		for _, g := range c.Mechanism.Clipping {
			note("group "+g.Name, "vectors %q, scales %v, bound %s, rule %s", g.Parameters, g.Scales, describeBound(g.Bound), describeRule(g.Rule))
		}
		note("noise", "%v", c.Mechanism.noise().Shared(0))
		for _, g := range c.Mechanism.Clipping {
			switch z, own := c.Mechanism.noise().OfGroup(g.Name, 0); {
			case c.Mechanism.GroupNoiseMultiplierAt[g.Name] != nil:
				note("noise of group "+g.Name, "a function from %v", z)
			case own:
				note("noise of group "+g.Name, "%v", z)
			}
		}
		if c.Mechanism.adaptive != nil {
			note("budget of the filter", "ε %v at δ %v", c.Budget.StopAtEpsilon, c.Budget.Delta)
			note(filterOrderEntry, "%v", c.Budget.FilterOrder)
		}
		note("allocation", "%s", c.Mechanism.Allocation)
		for _, name := range slices.Sorted(maps.Keys(c.Mechanism.GroupShares)) {
			note("share of group "+name, "%v", c.Mechanism.GroupShares[name])
		}
		note("distribution", "%s", c.Mechanism.Distribution)
		note("arithmetic", "%s", c.Mechanism.Arithmetic)
	}
	for _, s := range c.Statistics {
		note("statistic "+s.Name, "%d numbers, sensitivity %v, noise %v", s.Size, s.Sensitivity, s.Noise)
		if s.Group != "" {
			note("group of "+s.Name, "%s, scale %v", s.Group, cmp.Or(s.Scale, 1))
		}
		if s.Every > 1 {
			note("lots that release "+s.Name, "each %dth", s.Every)
		}
	}
	if v := c.Validation; v.Set != nil {
		note("validation", "%d records held out, noise %v", c.Records.Count(v.Set), v.Noise)
	}
	if p := c.Projection; p.Directions > 0 {
		note("projection", "%d directions, noise %v", p.Directions, p.Noise)
	}
	if l := c.LocalTraining; l.Steps > 0 {
		note("local training", "%d steps of %d examples at rate %v", l.Steps, l.Batch, l.Rate)
	}
	if c.isWeighted() {
		note("weights", "at most %v, mean %v", c.Weights.Cap, c.Weights.Mean)
		if c.Weights.MinMean != 0 {
			note("denominator", "of the lot")
		}
	}
	if a := c.Augmentation; a.Views > 0 {
		note("augmentation", "%d views", a.Views)
		if whole := data.Uncropped(c.Train); whole != nil {
			for _, column := range whole.Columns() {
				note("whole column "+column.Name, "%v", column.Shape)
			}
		}
	}
	note("optimizer", "%s", c.Optimization.Optimizer.Describe())
	if c.Optimization.LearningRateAt == nil {
		note("schedule", "%v", c.Optimization.Schedule)
	} else {
		note("schedule", "a function from %v", c.Optimization.LearningRateAt(0)) // functions cannot be compared
	}
	for v, p := range r.lot.Mechanism.Step.ParamGroups {
		name := program.Parameters[v].Name
		if p.RateMultiplier != 1 {
			note("learning rate of "+name, "times %v", p.RateMultiplier)
		}
		if p.DecayMultiplier != 1 {
			note("weight decay of "+name, "times %v", p.DecayMultiplier)
		}
	}
	note("average", "%v", c.Optimization.Average.Decay)
	for _, name := range slices.Sorted(maps.Keys(c.Fingerprint)) {
		note(name, "%s", c.Fingerprint[name])
	}
	return f, nil
}

// CheckConstants compares the constants of the network, such as frozen weights, with those at the start of the
// run. They differ if the builder reads a file that was replaced. A run without checkpoints does not know
// those at its start, and returns nil.
func (r *Run) CheckConstants() error {
	if r.constants == "" {
		return nil
	}
	build, err := r.config.unreleasedNetwork()
	if err != nil {
		return err
	}
	_, constants, err := network.Digests(build, r.network.Program, true)
	if err == nil && constants != r.constants {
		err = fmt.Errorf("the frozen weights and other constants of the network are not those at the start of the run: the file that they are read from was replaced; start again")
	}
	return err
}

// describeBound describes a bound. A function is described by its type and its value in lot 0.
func describeBound(b clip.Bound) string {
	switch b.(type) {
	case clip.Constant, clip.Quantile:
		return fmt.Sprintf("%T%+v", b, b)
	}
	return fmt.Sprintf("%T from %v", b, b.At(0))
}

func describeRule(r clip.Rule) string {
	if r == nil {
		r = clip.Threshold{}
	}
	return fmt.Sprintf("%T%+v", r, r)
}
