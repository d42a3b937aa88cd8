package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/plan"
	"github.com/dptrain/dptrain/noise"
)

// mechanism bounds the influence of each record and sets the noise: it computes clip factors,
// the noise of each parameter, and the ledger entry of a lot.
type mechanism struct {
	config  *Config
	records int // N, public
	steps   int
	clipper *clip.Clipper // nil where the run is not private
	names   []string      // [parameter]
	groups  []int         // [parameter]: its group
	scales  []float64     // [parameter]: its scale within the group
	shares  []float64     // [group]: σ/S for the noise multiplier 1
	queries []int         // [group]: its query in entry
	counts  []*noisedSum  // [group]: the count behind an adaptive bound; nil where the bound is not adaptive
	entry   ledger.Lot    // the ledger entry of the next lot
	factors [][]float32   // [group][record]
	squared [][]float32   // [parameter][record]: squared norms, in the executable
	release plan.Release  // how the next lot's sums become a step

	contributions *plan.Contributions // of the executable; nil unless arithmetic is exact
}

// Adjacency returns the relation between neighbouring data sets that the guarantee covers:
//
//   - Lots of a fixed size: a record is replaced by another.
//   - Shuffled lots, and Poisson and truncated lots without Population: a record is replaced by a null record,
//     which contributes nothing. The number of records is public, because the rate or the
//     normaliser q·N follows from it, so the data sets have equal numbers of records. The
//     dominating pairs of Poisson lots, and thus ε, are those of adding or removing a record
//     (arXiv 2605.15648).
//   - Poisson and truncated lots with Population: a record is added or removed. The rate and the normaliser
//     follow from a constant, which is assumed not to come from the data.
func (s Sampling) Adjacency() ledger.Adjacency {
	switch {
	case s.Policy == sample.PolicyFixed:
		return ledger.ReplaceOne
	case s.Policy == sample.PolicyShuffle || s.Population == 0:
		return ledger.ZeroOut
	}
	return ledger.AddRemove
}

// newMechanism binds clipping and noise to a program's parameters. statistics are the queries
// that each lot has in addition. It checks every lot of the run.
func newMechanism(c *Config, n *compiledNetwork, e sample.Event, source *noise.Source, groups []plan.ParamGroup, statistics []ledger.Query) (*mechanism, error) {
	parameters := n.program.Parameters
	m := &mechanism{config: c, records: e.Records, steps: c.Steps, groups: make([]int, len(parameters))}
	m.release = plan.Release{Source: source, Sigma: make([]float64, len(parameters)), Scale: 1 / e.ExpectedLot(),
		Optimizer: c.Optimization.Optimizer.ForDevice(), ParamGroups: groups, Average: c.Optimization.Average.ForDevice()}
	if c.Mechanism.NonPrivate {
		m.factors = [][]float32{make([]float32, n.program.Records)}
		return m, nil
	}
	m.scales = make([]float64, len(parameters))
	if m.contributions = n.executable.Contributions(); m.contributions != nil {
		m.release.Unit = make([]float64, len(parameters))
	}
	for i, p := range parameters {
		m.names = append(m.names, p.Name)
		m.squared = append(m.squared, n.executable.SquaredNorms(i))
	}
	var err error
	if m.clipper, err = clip.NewClipper(m.names, c.Mechanism.Clipping, m.accuracy()); err != nil {
		return nil, err
	}
	var dimensions []noise.Group
	for g, p := range m.clipper.Groups() {
		m.factors = append(m.factors, make([]float32, n.program.Records))
		dimension := 0
		for _, member := range p.Members {
			m.groups[member.Parameter], m.scales[member.Parameter] = g, member.Scale
			dimension += parameters[member.Parameter].Shape.TotalSize()
		}
		dimensions = append(dimensions, noise.Group{Sensitivity: 1, Dimension: dimension})
	}
	allocate := noise.Proportional
	if c.Mechanism.Allocation == DimensionAdjusted {
		allocate = noise.DimensionAdjusted
	}
	if m.shares, err = allocate(1, dimensions); err != nil {
		return nil, err
	}
	if err := m.buildEntry(e, statistics); err != nil {
		return nil, err
	}
	return m, m.checkLots()
}

// accuracy returns what clip factors must leave room for.
func (m *mechanism) accuracy() clip.Accuracy {
	if m.contributions != nil {
		return clip.LatticeAccuracy
	}
	return clip.Float32Accuracy
}

// buildEntry builds the ledger entry of a lot.
func (m *mechanism) buildEntry(e sample.Event, statistics []ledger.Query) error {
	m.entry.Sampling = ledger.Sampling{Policy: ledger.Policy(e.Policy), Rate: e.Rate, LotSize: e.LotSize, Records: e.Records}
	for _, p := range m.clipper.Groups() {
		m.queries = append(m.queries, len(m.entry.Queries))
		m.entry.Queries = append(m.entry.Queries, ledger.Query{Group: p.Name, Mechanism: ledger.Gaussian})
		m.counts = append(m.counts, nil)
		if p.CountNoise > 0 {
			q := m.config.query(p.Name+"/unclipped", clip.CountSensitivity, p.CountNoise, countLattice, m.records)
			m.counts[len(m.counts)-1] = newNoisedSum(q, 1)
			m.entry.Queries = append(m.entry.Queries, q)
		}
	}
	m.entry.Queries = append(m.entry.Queries, statistics...)
	seen := map[string]bool{}
	for _, q := range m.entry.Queries {
		if seen[q.Group] {
			return fmt.Errorf("two released sums have the name %q: give each group and statistic its own name, because the ledger identifies them by it", q.Group)
		}
		seen[q.Group] = true
	}
	return nil
}

// checkLots sets every lot that is known before the first, so that a schedule cannot fail in
// the middle of a run.
func (m *mechanism) checkLots() error {
	lots := 1
	if m.isScheduled() {
		lots = m.steps
	}
	for lot := range lots {
		if err := checkNoiseMultiplier(m.config.Mechanism.noiseMultiplier(lot)); err != nil {
			return fmt.Errorf("lot %d: %w", lot, err)
		}
		if err := m.setLot(lot); err != nil {
			return err
		}
		for _, q := range m.entry.Queries {
			if err := m.config.checkQuery(q, m.records); err != nil {
				return err
			}
		}
	}
	return m.setLot(0)
}

// isScheduled reports whether the bounds or the noise of lots follow a schedule.
func (m *mechanism) isScheduled() bool {
	if m.config.Mechanism.NoiseMultiplierAt != nil {
		return true
	}
	for _, g := range m.config.Mechanism.Clipping {
		switch g.Bound.(type) {
		case clip.Constant, clip.Quantile:
		default:
			return true
		}
	}
	return false
}

// isAdaptive reports whether bounds follow released counts.
func (m *mechanism) isAdaptive() bool {
	return slices.ContainsFunc(m.clipper.Groups(), func(p clip.ResolvedGroup) bool { return p.CountNoise > 0 })
}

// advance prepares for a lot after the previous one was released.
func (m *mechanism) advance(lot int) error {
	if m.clipper == nil || lot == m.steps {
		return nil
	}
	if m.isAdaptive() || m.isScheduled() {
		return m.setLot(lot)
	}
	return m.clipper.BeginLot(lot)
}

// setLot sets a lot's bounds, the noise of each parameter and the ledger entry. The noise is
// at least what the ledger states: σ is rounded up to the float32 that devices compute with.
func (m *mechanism) setLot(lot int) error {
	if err := m.clipper.BeginLot(lot); err != nil {
		return err
	}
	z, err := m.clipper.NoiseMultiplier(m.config.Mechanism.noiseMultiplier(lot))
	if err != nil {
		return err
	}
	for g, s := range m.clipper.Sensitivities() {
		if math.IsInf(s, 1) {
			return fmt.Errorf("group %s has no clipping bound in lot %d, so noise cannot protect a record; give a bound, or train without privacy (Mechanism.NonPrivate, --non-private)", m.clipper.Groups()[g].Name, lot)
		}
		m.setQuery(&m.entry.Queries[m.queries[g]], s, z*m.shares[g]*s)
	}
	for v := range m.release.Sigma {
		sigma := m.entry.Queries[m.queries[m.groups[v]]].Noise * m.scales[v]
		if m.release.Sigma[v] = roundUp(sigma); !(sigma >= smallestNoise) || math.IsInf(m.release.Sigma[v], 1) {
			return fmt.Errorf("parameter %s, lot %d: a noise of standard deviation %g is out of the range of float32; choose a bound and a noise multiplier nearer to 1", m.names[v], lot, sigma)
		}
	}
	if m.contributions != nil {
		m.setLattice()
	}
	return nil
}

// setQuery sets a gradient group's query.
func (m *mechanism) setQuery(q *ledger.Query, sensitivity, noise float64) {
	if m.contributions != nil {
		*q = ledger.RoundedQuery(q.Group, sensitivity, noise, plan.Bound)
	} else {
		q.Sensitivity, q.Noise = sensitivity, noise
	}
}

// setLattice replaces the noise of each parameter by its value in lattice steps, which are
// plan.Bound to the sensitivity of its group. Contributions of norm plan.Bound with this noise
// are the query in the ledger: σ is rounded up.
func (m *mechanism) setLattice() {
	for v, g := range m.groups {
		q := m.entry.Queries[m.queries[g]]
		step := q.Sensitivity * m.scales[v] / plan.Bound
		m.contributions.Group[v] = g
		m.contributions.Steps[v] = 1 / step
		m.release.Unit[v] = step
		m.release.Sigma[v] = q.LatticeNoise()
	}
}

// noiseOf returns the standard deviation of the noise on an element of a parameter's sum.
func (m *mechanism) noiseOf(v int) float64 {
	if m.contributions != nil {
		return m.release.Sigma[v] * m.release.Unit[v]
	}
	return m.release.Sigma[v]
}

// smallestNoise is the smallest float32 with a full significand.
const smallestNoise = 0x1p-126

// roundUp returns the smallest float32 that is at least x.
func roundUp(x float64) float64 {
	f := float32(x)
	if float64(f) < x {
		f = math.Nextafter32(f, float32(math.Inf(1)))
	}
	return float64(f)
}

// costOfLot returns an entry that costs as much as a lot. Bounds do not change the cost: the
// noise is proportional to them.
func (m *mechanism) costOfLot(lot int) ledger.Lot {
	entry := m.entry
	entry.Queries = slices.Clone(entry.Queries)
	// checkLots has checked the multiplier of every lot.
	z, _ := m.clipper.NoiseMultiplier(m.config.Mechanism.noiseMultiplier(lot))
	for g, q := range m.queries {
		m.setQuery(&entry.Queries[q], 1, z*m.shares[g])
	}
	return entry
}

// computeClipFactors sets the clip factors of the microbatch in an executable. Its first n
// records count; the padding gets 0.
func (m *mechanism) computeClipFactors(e plan.Executable, n int) error {
	if m.clipper != nil {
		if err := m.clipper.ComputeFactors(m.factors, m.squared, n); err != nil {
			return err
		}
	} else {
		for i := range m.factors[0] {
			m.factors[0][i] = 0
			if i < n {
				m.factors[0][i] = 1
			}
		}
	}
	for v, g := range m.groups {
		copy(e.ClipFactors(v), m.factors[g])
	}
	return nil
}

// releaseCounts noises the counts behind adaptive bounds and updates the bounds.
func (m *mechanism) releaseCounts(streams noiseStreams, step int, expectedLot float64) error {
	for g, p := range m.clipper.Groups() {
		if p.CountNoise == 0 {
			continue
		}
		var count [1]float64
		m.counts[g].setTotal(m.clipper.QuantileCount(g))
		if err := m.counts[g].release(count[:], streams.source, streams.count(step, g)); err != nil {
			return err
		}
		if err := m.clipper.UpdateBound(g, count[0], expectedLot); err != nil {
			return err
		}
	}
	return nil
}
