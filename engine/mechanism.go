package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/clipping"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/setting"
	"github.com/dptrain/dptrain/noise"
)

// mechanism bounds the influence of each record and sets the noise: it computes clip factors,
// the noise of each parameter, and the ledger entry of a lot.
type mechanism struct {
	config  *Config
	records int // N, public
	steps   int
	clipper *clipping.Clipper // nil where the run is not private
	names   []string          // [parameter]
	groups  []int             // [parameter]: its group
	scales  []float64         // [parameter]: its scale within the group
	shares  []float64         // [group]: σ/S for the noise multiplier 1; 0 where the group has noise of its own
	queries []int             // [group]: its query in entry
	entry   ledger.Lot        // the ledger entry of the next lot
	planned []float64         // [lot·groups + group]: σ/S as scheduled before the first lot; nil without a schedule

	releases release.List // beside gradients; the first are the counts of the groups
	always   int          // queries of entry that every lot has
	factors  [][]float32  // [group][record]
	squared  [][]float32  // [parameter][record]: squared norms, in the executable
	release  plan.Release // how the next lot's sums become a step

	contributions *plan.Contributions // of the executable; nil unless it adds integers
	vectors       *release.Vectors    // records' vectors that the host adds; nil where an executable adds gradients
	largest       int64               // norm of a contribution of weight 1, in lattice steps
	perBound      float64             // sensitivity of a group over its clip bound: 1, or 2 if the denominator depends on the lot
}

// Adjacency returns the relation between neighbouring data sets that the guarantee covers:
//
//   - Lots of a fixed size, and all lots with ReplaceOne: a record is replaced by another. A sum then
//     moves by the contributions of both, which the accountants count as twice the sensitivity.
//   - Shuffled lots, and Poisson and truncated lots without Population: a record is replaced by a null record,
//     which contributes nothing. The number of records is public, because the rate or the
//     normaliser q·N follows from it, so the data sets have equal numbers of records. The
//     dominating pairs of Poisson lots, and thus ε, are those of adding or removing a record
//     (arXiv 2605.15648).
//   - Poisson and truncated lots with Population: a record is added or removed. The rate and the normaliser
//     follow from a constant, which is assumed not to come from the data.
func (s Sampling) Adjacency() ledger.Adjacency {
	switch {
	case s.Policy == sample.PolicyFixed || s.ReplaceOne:
		return ledger.ReplaceOne
	case s.Policy == sample.PolicyShuffle || s.Population == 0:
		return ledger.ZeroOut
	}
	return ledger.AddRemove
}

// protectedVectors are what each record contributes: gradients of parameters that an executable computes and
// adds, or vectors of the host.
type protectedVectors struct {
	parameters []plan.Parameter
	executable plan.Executable // nil: the host adds vectors
	microbatch int             // records that the executable computes together
}

// newMechanism binds clipping and noise to what records contribute. leastWeight is that of release.Vectors.
// list is what the run releases beside them. newMechanism checks every lot of the run.
func newMechanism(c *Config, p protectedVectors, leastWeight int64, e sample.Event, list release.List) (*mechanism, error) {
	parameters, executable, microbatch := p.parameters, p.executable, p.microbatch
	m := &mechanism{config: c, records: e.Records, steps: c.Steps, perBound: 1, groups: make([]int, len(parameters)),
		releases: list}
	if leastWeight > 0 {
		m.perBound = 2
		m.release.Ratio.Least = leastWeight
	}
	m.release.Sigma, m.release.Scale = make([]float64, len(parameters)), 1/e.ExpectedLot()
	for _, p := range parameters {
		m.names = append(m.names, p.Name)
	}
	if c.Mechanism.NonPrivate {
		m.factors = [][]float32{make([]float32, microbatch)}
		return m, m.addVectors(parameters, executable, leastWeight)
	}
	m.scales = make([]float64, len(parameters))
	if executable != nil {
		if m.contributions = executable.Contributions(); m.contributions != nil {
			m.release.Unit = make([]float64, len(parameters))
		}
		for i := range parameters {
			m.squared = append(m.squared, executable.SquaredNorms(i))
		}
	}
	var err error
	newClipper := clipping.NewClipper
	if m.release.Laplace = c.Mechanism.addsLaplace(); m.release.Laplace {
		newClipper = clipping.NewL1Clipper
	}
	if m.clipper, err = newClipper(m.names, c.Mechanism.Clipping, m.accuracy()); err != nil {
		return nil, err
	}
	if err := m.addVectors(parameters, executable, leastWeight); err != nil {
		return nil, err
	}
	var dimensions []noise.GroupSize // of the groups without noise of their own
	largest := 0
	for g, p := range m.clipper.Groups() {
		m.factors = append(m.factors, make([]float32, microbatch))
		dimension := 0
		for _, member := range p.Members {
			m.groups[member.Parameter], m.scales[member.Parameter] = g, member.Scale
			dimension += parameters[member.Parameter].Shape.TotalSize()
		}
		largest = max(largest, dimension)
		if _, own := c.Mechanism.groupNoiseMultiplier(p.Name, 0); !own {
			dimensions = append(dimensions, noise.GroupSize{Sensitivity: 1, Dimension: dimension})
		}
	}
	m.setRatioBound(largest)
	if err := m.allocateNoise(dimensions); err != nil {
		return nil, err
	}
	if err := m.buildEntry(e); err != nil {
		return nil, err
	}
	return m, m.checkLots()
}

// setRatioBound bounds the contributions of records with weights in a program whose sums are divided by
// the weight of the lot: see release.Sum.divideByWeight. size is that of the largest group.
func (m *mechanism) setRatioBound(size int) {
	m.largest = plan.Bound
	if m.contributions == nil || m.release.Ratio.Least == 0 {
		return
	}
	m.largest = release.RatioBound(plan.Bound, size)
	m.contributions.Bounds = make([]int64, len(m.contributions.Seeds))
}

// addVectors makes the sums of vectors, unless an executable adds gradients. Without privacy all
// vectors are one group with an infinite bound.
func (m *mechanism) addVectors(parameters []plan.Parameter, executable plan.Executable, leastWeight int64) (err error) {
	if executable != nil {
		return nil
	}
	clipper := m.clipper
	if clipper == nil {
		if clipper, err = clipping.NewClipper(m.names, clip.Flat(clip.Constant(math.Inf(1)), nil), clipping.Float32Accuracy); err != nil {
			return err
		}
		if err := clipper.BeginLot(0); err != nil {
			return err
		}
	}
	m.vectors = release.NewVectors(clipper, parameters, leastWeight)
	if m.clipper == nil {
		return m.vectors.SetQuery(0, ledger.Query{})
	}
	return nil
}

// allocateNoise divides the noise among the groups without noise of their own, which have these
// dimensions.
func (m *mechanism) allocateNoise(dimensions []noise.GroupSize) error {
	m.shares = make([]float64, len(m.factors))
	if len(dimensions) == 0 {
		return nil
	}
	allocate := noise.Proportional
	if m.config.Mechanism.Allocation == DimensionAdjusted {
		allocate = noise.DimensionAdjusted
	}
	shares, err := allocate(1, dimensions)
	if err != nil {
		return err
	}
	for g, p := range m.clipper.Groups() {
		if _, own := m.config.Mechanism.groupNoiseMultiplier(p.Name, 0); !own {
			m.shares[g], shares = shares[0], shares[1:]
		}
	}
	return nil
}

// accuracy returns what clip factors must leave room for.
func (m *mechanism) accuracy() clipping.Accuracy {
	if m.contributions != nil {
		return clipping.LatticeAccuracy
	}
	return clipping.Float32Accuracy
}

// buildEntry builds the ledger entry of a lot without its statistics, and checks that all queries
// have different names.
func (m *mechanism) buildEntry(e sample.Event) error {
	m.entry.Sampling = ledger.Sampling{Policy: ledger.Policy(e.Policy), Rate: e.Rate, LotSize: e.LotSize, Records: e.Records}
	for g, p := range m.clipper.Groups() {
		m.queries = append(m.queries, len(m.entry.Queries))
		m.entry.Queries = append(m.entry.Queries, ledger.Query{Group: p.Name, Mechanism: ledger.Gaussian})
		m.entry.Queries = m.releases[g:g+1].AppendQueries(m.entry.Queries, 0)
	}
	m.always = len(m.entry.Queries)
	seen := map[string]bool{}
	isNew := func(name string) error {
		if seen[name] {
			return fmt.Errorf("two released sums have the name %q: give each group and statistic its own name, because the ledger identifies them by it", name)
		}
		seen[name] = true
		return nil
	}
	for _, q := range m.entry.Queries {
		if err := isNew(q.Group); err != nil {
			return err
		}
	}
	for _, e := range m.releases[len(m.queries):] {
		if e.When == release.WithLots {
			if err := isNew(e.Query.Group); err != nil {
				return err
			}
		}
	}
	m.entry.Queries = slices.Grow(m.entry.Queries, len(m.releases)) // setStatistics does not allocate
	return nil
}

// setStatistics sets the statistics in the ledger entry of a lot: an entry states what the lot
// releases and nothing else.
func (m *mechanism) setStatistics(entry *ledger.Lot, lot int) {
	entry.Queries = m.releases[len(m.queries):].AppendQueries(entry.Queries[:m.always], lot)
}

// checkLots sets every lot that is known before the first, so that a schedule cannot fail in
// the middle of a run.
func (m *mechanism) checkLots() error {
	lots := 1
	if m.isScheduled() {
		lots = m.steps
	}
	isPlanned := m.config.Mechanism.isNoiseScheduled() && m.config.Mechanism.adaptive == nil
	for lot := range lots {
		if err := m.checkNoiseOf(lot); err != nil {
			return err
		}
		if isPlanned {
			if err := m.noiseMultipliers(lot, func(_ int, z float64) { m.planned = append(m.planned, z) }); err != nil {
				return err
			}
		}
		if err := m.setLot(lot); err != nil {
			return err
		}
		for _, q := range m.entry.Queries {
			if err := m.config.arithmetic().Check(q, m.records); err != nil {
				return err
			}
		}
	}
	return m.setLot(0)
}

// checkNoiseOf checks the noise multipliers of a lot.
func (m *mechanism) checkNoiseOf(lot int) error {
	c := &m.config.Mechanism
	if c.sharesNoise() {
		z := c.noiseMultiplier(lot)
		if err := checkNoiseMultiplier(z); err != nil {
			return fmt.Errorf("lot %d: %w", lot, err)
		}
		if c.addsLaplace() && !(z >= 1.0/maxLaplaceMultiplier && z <= maxLaplaceMultiplier) {
			return fmt.Errorf("lot %d: a noise multiplier of %v: Laplace noise requires one from 2^-18 to 2^18", lot, z)
		}
	}
	for _, g := range c.Clipping {
		if z, own := c.groupNoiseMultiplier(g.Name, lot); own {
			if err := checkNoiseMultiplier(z); err != nil {
				return fmt.Errorf("group %s, lot %d: %w", g.Name, lot, err)
			}
		}
	}
	return nil
}

// isScheduled reports whether the bounds or the noise of lots follow a schedule.
func (m *mechanism) isScheduled() bool {
	if m.config.Mechanism.isNoiseScheduled() {
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
	return slices.ContainsFunc(m.clipper.Groups(), func(p clipping.ResolvedGroup) bool { return p.CountNoise > 0 })
}

// advance prepares for a lot after the previous one was released.
func (m *mechanism) advance(lot int) error {
	if m.clipper == nil || lot == m.steps {
		return nil
	}
	if m.isAdaptive() || m.isScheduled() {
		return m.setLot(lot)
	}
	m.setStatistics(&m.entry, lot)
	return m.clipper.BeginLot(lot)
}

// noiseMultipliers calls set with σ/S of each group in a lot.
func (m *mechanism) noiseMultipliers(lot int, set func(group int, z float64)) error {
	c := &m.config.Mechanism
	shared := 0.0
	if c.sharesNoise() {
		var err error
		if shared, err = m.clipper.NoiseMultiplier(c.noiseMultiplier(lot)); err != nil {
			return err
		}
	}
	for g, p := range m.clipper.Groups() {
		z, own := c.groupNoiseMultiplier(p.Name, lot)
		if !own {
			z = shared * m.shares[g]
		}
		set(g, z)
	}
	return nil
}

// setLot sets a lot's bounds, the noise of each parameter and the ledger entry. The noise is
// at least what the ledger states: σ is rounded up to the float32 that devices compute with.
func (m *mechanism) setLot(lot int) error {
	if err := m.clipper.BeginLot(lot); err != nil {
		return err
	}
	sensitivities := m.clipper.Sensitivities()
	for g, s := range sensitivities {
		if math.IsInf(s, 1) {
			return setting.Errorf("Mechanism.Clipping", "group %s has no clipping bound in lot %d, so noise cannot protect a record; give a bound, or train without privacy (%v)",
				m.clipper.Groups()[g].Name, lot, setting.Named("Mechanism.NonPrivate"))
		}
	}
	m.setStatistics(&m.entry, lot)
	changed := -1
	err := m.noiseMultipliers(lot, func(g int, z float64) {
		if i := lot*len(sensitivities) + g; i < len(m.planned) && m.planned[i] != z {
			changed = g
		}
		s := sensitivities[g] * m.perBound
		m.setQuery(&m.entry.Queries[m.queries[g]], s, z)
	})
	if err != nil {
		return err
	}
	if changed >= 0 { // the planned ε would be wrong
		return fmt.Errorf("lot %d: the noise multiplier of group %s was another one before the first lot: choose noise from released values by Mechanism.Choose, which a filter accounts for", lot, m.clipper.Groups()[changed].Name)
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
	if m.vectors != nil {
		for g, q := range m.queries {
			if err := m.vectors.SetQuery(g, m.entry.Queries[q]); err != nil {
				return fmt.Errorf("lot %d: %w", lot, err)
			}
		}
	}
	return nil
}

// setQuery sets a gradient group's query, given the noise over the sensitivity.
func (m *mechanism) setQuery(q *ledger.Query, sensitivity, z float64) {
	noise := z * sensitivity
	switch {
	case m.release.Laplace:
		*q = laplaceQuery(q.Group, sensitivity, z)
	case m.vectors != nil:
		*q = m.config.arithmetic().Query(q.Group, sensitivity, noise, release.StatisticLattice, m.records)
	case m.contributions != nil:
		*q = ledger.RoundedQuery(q.Group, sensitivity, noise, plan.Bound)
	default:
		q.Sensitivity, q.Noise = sensitivity, noise
	}
}

// setLattice replaces the noise of each parameter by its value in lattice steps, which are m.largest to
// the bound of its group. A sum that a record moves by at most plan.Bound steps, with this noise, is the
// query in the ledger: σ is rounded up.
func (m *mechanism) setLattice() {
	for v, g := range m.groups {
		q := m.entry.Queries[m.queries[g]]
		step := q.Sensitivity / m.perBound * m.scales[v] / float64(m.largest)
		m.contributions.Group[v] = g
		m.contributions.Steps[v] = 1 / step
		m.release.Unit[v] = step
		if m.release.Laplace {
			m.release.Sigma[v] = q.LatticeScale()
		} else {
			m.release.Sigma[v] = q.LatticeNoise()
		}
	}
}

// addsLaplace reports whether gradients have Laplace noise.
func (m *Mechanism) addsLaplace() bool { return !m.NonPrivate && m.Distribution == LaplaceNoise }

// laplaceQuery returns the query of a group's gradients with Laplace noise. Its cost, which is
// that of the integers, is below the cost of Laplace noise of scale z·sensitivity over the reals:
// one more lattice step is more than the difference.
func laplaceQuery(group string, sensitivity, z float64) ledger.Query {
	return ledger.DiscreteLaplaceQuery(group, sensitivity, int64(math.Ceil(z*plan.Bound))+1, plan.Bound)
}

// maxLaplaceMultiplier bounds z of Laplace noise: sums of 2^31 contributions and values of 8000
// scales then fit 64 bits.
const maxLaplaceMultiplier = 1 << 18

// noiseOf returns the standard deviation of the noise on an element of a parameter's sum.
func (m *mechanism) noiseOf(v int) float64 {
	switch {
	case m.release.Laplace:
		return math.Sqrt2 * m.release.Sigma[v] * m.release.Unit[v]
	case m.contributions != nil:
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
	return m.plannedLot(lot, func(int) float64 { return 1 })
}

// plannedLot returns the entry of a lot if its groups have these sensitivities.
func (m *mechanism) plannedLot(lot int, sensitivity func(group int) float64) ledger.Lot {
	entry := m.entry
	entry.Queries = slices.Clone(entry.Queries)
	m.setStatistics(&entry, lot)
	// checkLots has checked the multipliers of every lot.
	m.noiseMultipliers(lot, func(g int, z float64) {
		s := sensitivity(g) * m.perBound
		m.setQuery(&entry.Queries[m.queries[g]], s, z)
	})
	return entry
}

// equalLots returns how many lots from the given one on certainly have equal entries, apart from
// their bounds.
func (m *mechanism) equalLots(lot int) int {
	if m.config.Mechanism.isNoiseScheduled() {
		return 1
	}
	return min(m.steps, m.releases.EqualLots(lot))
}

// lotsDiffer reports whether lots have different noise or different statistics.
func (m *mechanism) lotsDiffer() bool {
	return m.config.Mechanism.isNoiseScheduled() || m.releases.LotsDiffer()
}

// computeClipFactors sets the clip factors of the microbatch in an executable. Its first n
// records count; the padding gets 0. weights, from 0 to 1, are those of the records; nil: all 1.
func (m *mechanism) computeClipFactors(e plan.Executable, n int, weights []float32) error {
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
		factors := e.ClipFactors(v)
		copy(factors, m.factors[g])
		for i, w := range weights { // a rounded product with at most 1 is at most the factor
			factors[i] *= w
		}
	}
	if m.contributions != nil && m.contributions.Bounds != nil {
		clear(m.contributions.Bounds)
		for i, w := range weights {
			m.contributions.Bounds[i] = int64(float64(m.largest) * float64(w)) // rounded down
		}
	}
	return nil
}

// releaseSums releases what a lot releases beside gradients, and does with each result what its entry says.
// running are the running statistics of the network, if it has any.
func (m *mechanism) releaseSums(sums *release.Sums, lot int, expectedLot float64, running *runningStatistics) error {
	for i := range sums.List {
		e := &sums.List[i]
		if !e.IsDue(lot) {
			continue
		}
		if e.Use == release.MoveBound {
			sums.Sum(i).SetTotal(m.clipper.QuantileCount(i))
		}
		result, err := sums.Release(i, lot)
		if err != nil {
			return err
		}
		if e.Use == release.MoveBound {
			if err := m.clipper.UpdateBound(i, result[0], expectedLot); err != nil {
				return err
			}
			continue
		}
		for k := range result {
			result[k] /= expectedLot
		}
		if e.Use == release.MoveRunningStatistics {
			running.update(result, e.Query.Noise/expectedLot, (lot+1)/e.Every)
		}
	}
	return nil
}
