package engine

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/plan"
	"github.com/dptrain/dptrain/noise"
)

// mechanism is what guards a lot: how its vectors are clipped, the noise on each
// group, and the entry that the ledger gets for it.
type mechanism struct {
	clipper *clip.Clipper // nil where the run is not private
	groups  []int         // [vector]: its group
	scales  []float64     // [vector]: its scale within the group
	shares  []float64     // [group]: σ over sensitivity, for the multiplier 1
	queries []int         // [group]: its query in lot
	lot     ledger.Lot
}

// Adjacency says how two data sets may differ that a run of lots drawn so keeps from being
// told apart: by a record more or less; where lots have a fixed size, by another record in
// the place of one; where they are shuffled, by a record that is blanked.
func Adjacency(p sample.Policy) ledger.Adjacency {
	switch p {
	case sample.PolicyFixed:
		return ledger.ReplaceOne
	case sample.PolicyShuffle:
		return ledger.ZeroOut
	}
	return ledger.AddRemove
}

// protect binds clipping and noise to the program's vectors.
func (r *Run) protect() error {
	c, m := &r.config, &r.mechanism
	vectors := r.program.Parameters
	m.groups = make([]int, len(vectors))
	r.release = plan.Release{Source: r.source, Sigma: make([]float64, len(vectors)), Scale: 1 / r.Event().ExpectedLot(),
		Optimizer: c.Optimization.Optimizer.ForDevice(), Average: c.Optimization.Average.ForDevice()}
	var err error
	if r.release.ParamGroups, err = r.paces(); err != nil {
		return err
	}
	for _, s := range c.Statistics {
		t := newTally(s)
		if err := t.try(c.Train.Columns(), len(r.batch.output)/r.program.Batch); err != nil {
			return err
		}
		r.tallies = append(r.tallies, t)
	}
	if c.Mechanism.NonPrivate {
		r.factors = [][]float32{make([]float32, r.program.Records)}
		return nil
	}
	m.scales = make([]float64, len(vectors))
	names := make([]string, len(vectors))
	for i, v := range vectors {
		names[i] = v.Name
		r.squared = append(r.squared, r.machine.SquaredNorms(i))
	}
	if m.clipper, err = clip.NewClipper(names, c.Mechanism.Clipping, clip.Float32Accuracy); err != nil {
		return err
	}
	var groups []noise.Group
	for g, p := range m.clipper.Groups() {
		r.factors = append(r.factors, make([]float32, r.program.Records))
		dimension := 0
		for _, member := range p.Members {
			m.groups[member.Parameter], m.scales[member.Parameter] = g, member.Scale
			dimension += vectors[member.Parameter].Shape.TotalSize()
		}
		groups = append(groups, noise.Group{Sensitivity: 1, Dimension: dimension})
	}
	allocate := noise.Proportional
	if c.Mechanism.Allocation == DimensionAdjusted {
		allocate = noise.DimensionAdjusted
	}
	if m.shares, err = allocate(1, groups); err != nil {
		return err
	}
	if err := r.enter(); err != nil {
		return err
	}
	return r.checkLots()
}

// enter lays out the ledger's entry for a lot.
func (r *Run) enter() error {
	m, e := &r.mechanism, r.Event()
	m.lot.Sampling = ledger.Sampling{Policy: ledger.Policy(e.Policy), Rate: e.Rate, LotSize: e.LotSize, Records: e.Records}
	for _, p := range m.clipper.Groups() {
		m.queries = append(m.queries, len(m.lot.Queries))
		m.lot.Queries = append(m.lot.Queries, ledger.Query{Group: p.Name, Mechanism: ledger.Gaussian})
		if p.CountNoise > 0 {
			m.lot.Queries = append(m.lot.Queries, ledger.Query{
				Group: p.Name + "/unclipped", Mechanism: ledger.Gaussian, Sensitivity: clip.CountSensitivity, Noise: p.CountNoise})
		}
	}
	for _, t := range r.tallies {
		m.lot.Queries = append(m.lot.Queries, t.query())
	}
	seen := map[string]bool{}
	for _, q := range m.lot.Queries {
		if seen[q.Group] {
			return fmt.Errorf("two released sums are called %q: name groups and statistics apart, the ledger needs to tell them", q.Group)
		}
		seen[q.Group] = true
	}
	return nil
}

// checkLots goes through the bounds and noise of every lot before the first, so
// that a schedule cannot fail in the middle of a run.
func (r *Run) checkLots() error {
	many := 1
	if r.scheduled() {
		many = r.config.Steps
	}
	for lot := range many {
		if err := checkNoise(r.config.multiplier(lot)); err != nil {
			return fmt.Errorf("lot %d: %w", lot, err)
		}
		if err := r.prepare(lot); err != nil {
			return err
		}
	}
	return r.prepare(0)
}

// scheduled reports whether a later lot's bounds or noise may differ from the
// first one's without its having been released.
func (r *Run) scheduled() bool {
	if r.config.Mechanism.NoiseMultiplierAt != nil {
		return true
	}
	for _, g := range r.config.Mechanism.Clipping {
		switch g.Bound.(type) {
		case clip.Constant, clip.Quantile:
		default:
			return true
		}
	}
	return false
}

// changing reports whether the next lot's bounds may differ from this one's.
func (r *Run) changing() bool {
	for _, p := range r.mechanism.clipper.Groups() {
		if p.CountNoise > 0 {
			return true
		}
	}
	return r.scheduled()
}

// prepare fixes the bounds of a lot, the noise of each vector and the ledger's
// entry. The noise drawn is at least what the ledger says: a vector's deviation
// is rounded up to the float32 that devices compute with.
func (r *Run) prepare(lot int) error {
	m := &r.mechanism
	if err := m.clipper.BeginLot(lot); err != nil {
		return err
	}
	z, err := m.clipper.NoiseMultiplier(r.config.multiplier(lot))
	if err != nil {
		return err
	}
	for g, s := range m.clipper.Sensitivities() {
		if math.IsInf(s, 1) {
			return fmt.Errorf("group %s has no bound in lot %d, so no noise could hide a record: give a bound, or train without privacy by NonPrivate (--non-private)", m.clipper.Groups()[g].Name, lot)
		}
		q := &m.lot.Queries[m.queries[g]]
		q.Sensitivity, q.Noise = s, z*m.shares[g]*s
	}
	for v := range r.release.Sigma {
		sigma := m.lot.Queries[m.queries[m.groups[v]]].Noise * m.scales[v]
		if r.release.Sigma[v] = roundUp(sigma); !(sigma >= smallestNoise) || math.IsInf(r.release.Sigma[v], 1) {
			return fmt.Errorf("noise of deviation %g for %s in lot %d is out of the range of float32: choose a bound and a noise nearer to 1", sigma, r.program.Parameters[v].Name, lot)
		}
	}
	return nil
}

// smallestNoise is the least float32 with a full significand.
const smallestNoise = 0x1p-126

// roundUp is the smallest float32 that is not below x.
func roundUp(x float64) float64 {
	f := float32(x)
	if float64(f) < x {
		f = math.Nextafter32(f, float32(math.Inf(1)))
	}
	return float64(f)
}

// reserve tells the ledger how far it may state lots ahead of their release, so
// that a crash cannot overstate the run's cost beyond its steps or its budget, nor by
// more than its stake.
func (r *Run) reserve() {
	ahead := min(r.meter.allowed, r.config.Steps-r.step, r.config.stake())
	if r.config.Budget.StopAtEpsilon > 0 && r.config.Mechanism.NoiseMultiplierAt != nil {
		ahead = min(ahead, 1) // the next lot may cost less than this one
	}
	r.ledger.LimitReservations(ahead)
}

// adapt releases the counts behind adaptive bounds and moves the bounds.
func (r *Run) adapt() error {
	clipper := r.mechanism.clipper
	for g, p := range clipper.Groups() {
		if p.CountNoise == 0 {
			continue
		}
		normal, err := r.normal(r.countStream(g))
		if err != nil {
			return err
		}
		noised := clipper.QuantileCount(g) + p.CountNoise*normal
		if err := clipper.UpdateBound(g, noised, r.Event().ExpectedLot()); err != nil {
			return err
		}
	}
	return nil
}
