package release

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/clipping"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/setting"
	"github.com/dptrain/dptrain/noise"
)

// Settings are the public numbers that a mechanism follows from.
type Settings struct {
	Noise
	Arithmetic  Arithmetic
	NonPrivate  bool
	Event       sample.Event
	Steps       int
	LeastWeight int64 // of [Vectors]; 0: the denominator of the mean is fixed
	Releases    List  // beside gradients; the first are the counts of the groups
}

// Mechanism bounds the influence of each record and sets the noise: it computes clip factors,
// the noise of each parameter, and the ledger entry of a lot.
type Mechanism struct {
	Settings
	Clipper *clipping.Clipper // nil where the run is not private
	names   []string          // [parameter]
	groups  []int             // [parameter]: its group
	Scales  []float64         // [parameter]: its scale within the group
	shares  []float64         // [group]: σ/S for the noise multiplier 1; 0 where the group has noise of its own
	queries []int             // [group]: its query in entry
	Entry   ledger.Lot        // the ledger entry of the next lot
	planned []float64         // [lot·groups + group]: σ/S as scheduled before the first lot; nil without a schedule

	always  int          // queries of entry that every lot has
	Factors [][]float32  // [group][record]
	squared [][]float32  // [parameter][record]: squared norms, in the executable; then those of joint entries
	Step    plan.Release // how the next lot's sums become a step

	Contributions *plan.Contributions // of the executable; nil unless it adds integers
	Vectors       *Vectors            // records' vectors that the host adds; nil where an executable adds gradients
	Largest       int64               // norm of a contribution of weight 1, in lattice steps
	joint         []joint             // entries of the list that are parts of groups
	perBound      float64             // sensitivity of a group over its clip bound: 1, or 2 if the denominator depends on the lot
}

// joint is an entry of the list of releases that is a part of a group.
type joint struct {
	entry   int
	squared []float32 // [record]: of the microbatch
}

// Protected are what each record contributes: gradients of parameters that an executable computes and
// adds, or vectors of the host.
type Protected struct {
	Parameters []plan.Parameter
	Executable plan.Executable // nil: the host adds vectors
	Microbatch int             // records that the executable computes together
}

// NewMechanism binds clipping and noise to what records contribute. It checks every lot of the run.
func NewMechanism(settings Settings, p Protected) (*Mechanism, error) {
	parameters, executable := p.Parameters, p.Executable
	m := &Mechanism{Settings: settings, perBound: 1, groups: make([]int, len(parameters))}
	if m.LeastWeight > 0 {
		m.perBound = 2
		m.Step.Ratio.Least = m.LeastWeight
	}
	m.Step.Sigma, m.Step.Scale = make([]float64, len(parameters)), 1/m.Event.ExpectedLot()
	for _, p := range parameters {
		m.names = append(m.names, p.Name)
	}
	if m.NonPrivate {
		m.Factors = [][]float32{make([]float32, p.Microbatch)}
		return m, m.addVectors(p)
	}
	m.Scales = make([]float64, len(parameters))
	if executable != nil {
		if m.Contributions = executable.Contributions(); m.Contributions != nil {
			m.Step.Unit = make([]float64, len(parameters))
		}
		for i := range parameters {
			m.squared = append(m.squared, executable.SquaredNorms(i))
		}
	}
	var err error
	newClipper := clipping.NewClipper
	if m.Step.Laplace = m.Laplace; m.Step.Laplace {
		newClipper = clipping.NewL1Clipper
	}
	if m.Clipper, err = newClipper(m.names, m.Groups, m.accuracy()); err != nil {
		return nil, err
	}
	m.joinEntries(p.Microbatch)
	if err := m.addVectors(p); err != nil {
		return nil, err
	}
	var dimensions []noise.GroupSize // of the groups without noise of their own
	largest := 0
	for g, group := range m.Clipper.Groups() {
		m.Factors = append(m.Factors, make([]float32, p.Microbatch))
		dimension := 0
		for _, member := range group.Members {
			if joint := member.Parameter - len(parameters); joint >= 0 {
				dimension += m.Releases[m.joint[joint].entry].Size
				continue
			}
			m.groups[member.Parameter], m.Scales[member.Parameter] = g, member.Scale
			dimension += parameters[member.Parameter].Shape.TotalSize()
		}
		largest = max(largest, dimension)
		if _, own := m.OfGroup(group.Name, 0); !own {
			dimensions = append(dimensions, noise.GroupSize{Sensitivity: 1, Dimension: dimension})
		}
	}
	m.setRatioBound(largest)
	if err := m.allocateNoise(dimensions); err != nil {
		return nil, err
	}
	if err := m.buildEntry(); err != nil {
		return nil, err
	}
	return m, m.checkLots()
}

// joinEntries adds the entries that are parts of groups to their groups.
func (m *Mechanism) joinEntries(microbatch int) {
	for i := range m.Releases {
		e := &m.Releases[i]
		if !e.IsJoint() {
			continue
		}
		m.Clipper.Join(e.Group, e.Scale)
		squared := make([]float32, microbatch)
		m.joint, m.squared = append(m.joint, joint{i, squared}), append(m.squared, squared)
	}
	if len(m.joint) > 0 && m.Contributions != nil {
		m.Contributions.Bounds = make([][]int64, len(m.Clipper.Groups()))
		for _, j := range m.joint {
			m.Contributions.Bounds[m.Releases[j.entry].Group] = make([]int64, microbatch)
		}
	}
}

// SetJointNorm sets the norm of the vector that record i of the microbatch adds to a joint entry, before
// ComputeClipFactors. A norm that is not finite excludes the record from the lot.
func (m *Mechanism) SetJointNorm(entry, i int, norm float64) {
	k := slices.IndexFunc(m.joint, func(j joint) bool { return j.entry == entry })
	squared := float32(norm * norm)
	if float64(squared) < norm*norm { // it is never underestimated
		squared = math.Nextafter32(squared, float32(math.Inf(1)))
	}
	m.joint[k].squared[i] = squared
}

// AddJoint adds the vector of record i of the microbatch, after ComputeClipFactors, to the sum of a joint
// entry. With exact arithmetic, the integers of the record in the whole group have a norm of at most
// plan.Bound: what the vector takes is no longer available to the gradients, which are added later.
func (m *Mechanism) AddJoint(s *Sum, e *Entry, i int, vector []float64) {
	factor := float64(m.Factors[e.Group][i])
	if factor == 0 {
		return
	}
	if m.Contributions == nil {
		s.AddJoint(vector, factor, 0)
		return
	}
	bound := &m.Contributions.Bounds[e.Group][i]
	*bound = floorRoot(s.AddJoint(vector, factor, *bound**bound))
}

// floorRoot returns the largest integer whose square is at most x, from 0 to plan.Bound².
func floorRoot(x int64) int64 {
	root := int64(math.Sqrt(float64(x)))
	for root*root > x {
		root--
	}
	return root
}

// setRatioBound bounds the contributions of records with weights in a program whose sums are divided by
// the weight of the lot: see Sum.divideByWeight. size is that of the largest group.
func (m *Mechanism) setRatioBound(size int) {
	m.Largest = plan.Bound
	if m.Contributions == nil || m.Step.Ratio.Least == 0 {
		return
	}
	m.Largest = RatioBound(plan.Bound, size)
	bounds := make([]int64, len(m.Contributions.Seeds)) // the same in all groups
	for range m.Clipper.Groups() {
		m.Contributions.Bounds = append(m.Contributions.Bounds, bounds)
	}
}

// addVectors makes the sums of vectors, unless an executable adds gradients. Without privacy all
// vectors are one group with an infinite bound.
func (m *Mechanism) addVectors(p Protected) (err error) {
	if p.Executable != nil {
		return nil
	}
	clipper := m.Clipper
	if clipper == nil {
		if clipper, err = clipping.NewClipper(m.names, clip.Flat(clip.Constant(math.Inf(1)), nil), clipping.Float32Accuracy); err != nil {
			return err
		}
		if err := clipper.BeginLot(0); err != nil {
			return err
		}
	}
	m.Vectors = NewVectors(clipper, p.Parameters, m.LeastWeight)
	if m.Clipper == nil {
		return m.Vectors.SetQuery(0, ledger.Query{})
	}
	return nil
}

// allocateNoise divides the noise among the groups without noise of their own, which have these
// dimensions.
func (m *Mechanism) allocateNoise(dimensions []noise.GroupSize) error {
	m.shares = make([]float64, len(m.Factors))
	if len(dimensions) == 0 {
		return nil
	}
	var shares []float64
	var err error
	switch {
	case len(m.GroupShares) > 0:
		var parts []float64
		for _, p := range m.Clipper.Groups() {
			if _, own := m.OfGroup(p.Name, 0); !own {
				parts = append(parts, m.GroupShares[p.Name])
			}
		}
		shares, err = noise.ByShare(1, dimensions, parts)
	case m.DimensionAdjusted:
		shares, err = noise.DimensionAdjusted(1, dimensions)
	default:
		shares, err = noise.Proportional(1, dimensions)
	}
	if err != nil {
		return err
	}
	for g, p := range m.Clipper.Groups() {
		if _, own := m.OfGroup(p.Name, 0); !own {
			m.shares[g], shares = shares[0], shares[1:]
		}
	}
	return nil
}

// accuracy returns what clip factors must leave room for.
func (m *Mechanism) accuracy() clipping.Accuracy {
	if m.Contributions != nil {
		return clipping.LatticeAccuracy
	}
	return clipping.Float32Accuracy
}

// buildEntry builds the ledger entry of a lot without its statistics, and checks that all queries
// have different names.
func (m *Mechanism) buildEntry() error {
	e := m.Event
	m.Entry.Sampling = ledger.Sampling{Policy: ledger.Policy(e.Policy), Rate: e.Rate, LotSize: e.LotSize, Records: e.Records}
	for g, p := range m.Clipper.Groups() {
		m.queries = append(m.queries, len(m.Entry.Queries))
		m.Entry.Queries = append(m.Entry.Queries, ledger.Query{Group: p.Name, Mechanism: ledger.Gaussian})
		m.Entry.Queries = m.Releases[g:g+1].AppendQueries(m.Entry.Queries, 0)
	}
	m.always = len(m.Entry.Queries)
	seen := map[string]bool{}
	isNew := func(name string) error {
		if seen[name] {
			return fmt.Errorf("two released sums have the name %q: give each group and statistic its own name, because the ledger identifies them by it", name)
		}
		seen[name] = true
		return nil
	}
	for _, q := range m.Entry.Queries {
		if err := isNew(q.Group); err != nil {
			return err
		}
	}
	for _, e := range m.Releases[len(m.queries):] {
		if e.When == WithLots {
			if err := isNew(e.Query.Group); err != nil {
				return err
			}
		}
	}
	m.Entry.Queries = slices.Grow(m.Entry.Queries, len(m.Releases)) // setStatistics does not allocate
	return nil
}

// setStatistics sets the statistics in the ledger entry of a lot: an entry states what the lot
// releases and nothing else.
func (m *Mechanism) setStatistics(entry *ledger.Lot, lot int) {
	entry.Queries = m.Releases[len(m.queries):].AppendQueries(entry.Queries[:m.always], lot)
}

// checkLots sets every lot that is known before the first, so that a schedule cannot fail in
// the middle of a run.
func (m *Mechanism) checkLots() error {
	lots := 1
	if m.IsScheduled() {
		lots = m.Steps
	}
	isPlanned := m.Noise.IsScheduled() && !m.Chosen
	for lot := range lots {
		if err := m.checkNoiseOf(lot); err != nil {
			return err
		}
		if isPlanned {
			if err := m.noiseMultipliers(lot, func(_ int, z float64) { m.planned = append(m.planned, z) }); err != nil {
				return err
			}
		}
		if err := m.SetLot(lot); err != nil {
			return err
		}
		for _, q := range m.Entry.Queries {
			if err := m.Arithmetic.Check(q, m.Event.Records); err != nil {
				return err
			}
		}
	}
	return m.SetLot(0)
}

// checkNoiseOf checks the noise multipliers of a lot.
func (m *Mechanism) checkNoiseOf(lot int) error {
	if m.IsShared() {
		z := m.Shared(lot)
		if err := CheckMultiplier(z); err != nil {
			return fmt.Errorf("lot %d: %w", lot, err)
		}
		if m.Laplace && !(z >= 1.0/maxLaplaceMultiplier && z <= maxLaplaceMultiplier) {
			return fmt.Errorf("lot %d: a noise multiplier of %v: Laplace noise requires one from 2^-18 to 2^18", lot, z)
		}
	}
	for _, g := range m.Groups {
		if z, own := m.OfGroup(g.Name, lot); own {
			if err := CheckMultiplier(z); err != nil {
				return fmt.Errorf("group %s, lot %d: %w", g.Name, lot, err)
			}
		}
	}
	return nil
}

// IsScheduled reports whether the bounds or the noise of lots follow a schedule.
func (m *Mechanism) IsScheduled() bool {
	if m.Noise.IsScheduled() {
		return true
	}
	for _, g := range m.Groups {
		switch g.Bound.(type) {
		case clip.Constant, clip.Quantile:
		default:
			return true
		}
	}
	return false
}

// isAdaptive reports whether bounds follow released counts.
func (m *Mechanism) isAdaptive() bool {
	return slices.ContainsFunc(m.Clipper.Groups(), func(p clipping.ResolvedGroup) bool { return p.CountNoise > 0 })
}

// Advance prepares for a lot after the previous one was released.
func (m *Mechanism) Advance(lot int) error {
	if m.Clipper == nil || lot == m.Steps {
		return nil
	}
	if m.isAdaptive() || m.IsScheduled() {
		return m.SetLot(lot)
	}
	m.setStatistics(&m.Entry, lot)
	return m.Clipper.BeginLot(lot)
}

// noiseMultipliers calls set with σ/S of each group in a lot.
func (m *Mechanism) noiseMultipliers(lot int, set func(group int, z float64)) error {
	shared := 0.0
	if m.IsShared() {
		var err error
		if shared, err = m.Clipper.NoiseMultiplier(m.Shared(lot)); err != nil {
			return err
		}
	}
	for g, p := range m.Clipper.Groups() {
		z, own := m.OfGroup(p.Name, lot)
		if !own {
			z = shared * m.shares[g]
		}
		set(g, z)
	}
	return nil
}

// SetLot sets a lot's bounds, the noise of each parameter and the ledger entry. The noise is
// at least what the ledger states: σ is rounded up to the float32 that devices compute with.
func (m *Mechanism) SetLot(lot int) error {
	if err := m.Clipper.BeginLot(lot); err != nil {
		return err
	}
	sensitivities := m.Clipper.Sensitivities()
	for g, s := range sensitivities {
		if math.IsInf(s, 1) {
			return setting.Errorf("Mechanism.Clipping.Bound", "group %s, lot %d: %v: noise protects no record without a bound; give a finite one, or train without privacy (%v)",
				m.Clipper.Groups()[g].Name, lot, setting.With("Mechanism.Clipping.Bound", s), setting.Named("Mechanism.NonPrivate"))
		}
	}
	m.setStatistics(&m.Entry, lot)
	changed := -1
	err := m.noiseMultipliers(lot, func(g int, z float64) {
		if i := lot*len(sensitivities) + g; i < len(m.planned) && m.planned[i] != z {
			changed = g
		}
		s := sensitivities[g] * m.perBound
		m.setQuery(&m.Entry.Queries[m.queries[g]], s, z)
	})
	if err != nil {
		return err
	}
	if changed >= 0 { // the planned ε would be wrong
		return fmt.Errorf("lot %d: the noise multiplier of group %s was another one before the first lot: choose noise from released values by Mechanism.Choose, which a filter accounts for", lot, m.Clipper.Groups()[changed].Name)
	}
	for v := range m.Step.Sigma {
		sigma := m.QueryOf(v).Noise * m.Scales[v]
		if m.Step.Sigma[v] = roundUp(sigma); !(sigma >= smallestNoise) || math.IsInf(m.Step.Sigma[v], 1) {
			return fmt.Errorf("parameter %s, lot %d: a noise of standard deviation %g is out of the range of float32; choose a bound and a noise multiplier nearer to 1", m.names[v], lot, sigma)
		}
	}
	if m.Contributions != nil {
		m.setLattice()
	}
	if m.Vectors != nil {
		for g, q := range m.queries {
			if err := m.Vectors.SetQuery(g, m.Entry.Queries[q]); err != nil {
				return fmt.Errorf("lot %d: %w", lot, err)
			}
		}
	}
	return nil
}

// setQuery sets a gradient group's query, given the noise over the sensitivity.
func (m *Mechanism) setQuery(q *ledger.Query, sensitivity, z float64) {
	noise := z * sensitivity
	switch {
	case m.Step.Laplace:
		*q = laplaceQuery(q.Group, sensitivity, z)
	case m.Vectors != nil:
		*q = m.Arithmetic.Query(q.Group, sensitivity, noise, StatisticLattice, m.Event.Records)
	case m.Contributions != nil:
		*q = ledger.RoundedQuery(q.Group, sensitivity, noise, plan.Bound)
	default:
		q.Sensitivity, q.Noise = sensitivity, noise
	}
}

// setLattice replaces the noise of each parameter by its value in lattice steps, which are m.Largest to
// the bound of its group. A sum that a record moves by at most plan.Bound steps, with this noise, is the
// query in the ledger: σ is rounded up.
func (m *Mechanism) setLattice() {
	for v, g := range m.groups {
		q := m.QueryOf(v)
		step := q.Sensitivity / m.perBound * m.Scales[v] / float64(m.Largest)
		m.Contributions.Group[v] = g
		m.Contributions.Steps[v] = 1 / step
		m.Step.Unit[v] = step
		if m.Step.Laplace {
			m.Step.Sigma[v] = q.LatticeScale()
		} else {
			m.Step.Sigma[v] = q.LatticeNoise()
		}
	}
}

// laplaceQuery returns the query of a group's gradients with Laplace noise. Its cost, which is
// that of the integers, is below the cost of Laplace noise of scale z·sensitivity over the reals:
// one more lattice step is more than the difference.
func laplaceQuery(group string, sensitivity, z float64) ledger.Query {
	return ledger.DiscreteLaplaceQuery(group, sensitivity, int64(math.Ceil(z*plan.Bound))+1, plan.Bound)
}

// maxLaplaceMultiplier bounds z of Laplace noise: sums of 2^31 contributions and values of 8000
// scales then fit 64 bits.
const maxLaplaceMultiplier = 1 << 18

// NoiseOf returns the standard deviation of the noise on an element of a parameter's sum.
func (m *Mechanism) NoiseOf(v int) float64 {
	switch {
	case m.Step.Laplace:
		return math.Sqrt2 * m.Step.Sigma[v] * m.Step.Unit[v]
	case m.Contributions != nil:
		return m.Step.Sigma[v] * m.Step.Unit[v]
	}
	return m.Step.Sigma[v]
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

// ComputeClipFactors sets the clip factors of the microbatch in an executable. Its first n
// records count; the padding gets 0. weights, from 0 to 1, are those of the records; nil: all 1.
func (m *Mechanism) ComputeClipFactors(e plan.Executable, n int, weights []float32) error {
	if m.Clipper != nil {
		if err := m.Clipper.ComputeFactors(m.Factors, m.squared, n); err != nil {
			return err
		}
	} else {
		for i := range m.Factors[0] {
			m.Factors[0][i] = 0
			if i < n {
				m.Factors[0][i] = 1
			}
		}
	}
	for v, g := range m.groups {
		factors := e.ClipFactors(v)
		copy(factors, m.Factors[g])
		for i, w := range weights { // a rounded product with at most 1 is at most the factor
			factors[i] *= w
		}
	}
	m.setBounds(weights)
	return nil
}

// setBounds sets the largest norms of contributions in lattice steps, where a program reads them.
func (m *Mechanism) setBounds(weights []float32) {
	switch {
	case m.Contributions == nil || m.Contributions.Bounds == nil:
	case len(m.joint) > 0:
		for _, bounds := range m.Contributions.Bounds {
			for i := range bounds {
				bounds[i] = plan.Bound
			}
		}
	default:
		bounds := m.Contributions.Bounds[0]
		clear(bounds)
		for i, w := range weights {
			bounds[i] = int64(float64(m.Largest) * float64(w)) // rounded down
		}
	}
}

// GroupOf returns the group of a parameter.
func (m *Mechanism) GroupOf(v int) int { return m.groups[v] }

// QueryOfGroup returns the query of a group in Entry.
func (m *Mechanism) QueryOfGroup(g int) ledger.Query { return m.Entry.Queries[m.queries[g]] }

// QueryOf returns the query of a parameter's group in Entry.
func (m *Mechanism) QueryOf(v int) ledger.Query { return m.Entry.Queries[m.queries[m.groups[v]]] }
