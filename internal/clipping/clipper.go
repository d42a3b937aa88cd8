package clipping

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/internal/setting"
)

// Member is a parameter of a group: its index in the fixed order of the parameters, and its
// scale. Noise of standard deviation σ for the group is σ·Scale for the parameter.
type Member struct {
	Parameter int
	Scale     float64
}

// ResolvedGroup is a group whose patterns are replaced by parameters.
type ResolvedGroup struct {
	Name    string
	Members []Member

	// CountNoise is σ_b, the noise of the count that an adaptive bound uses. The count is a
	// separate query of sensitivity [clip.CountSensitivity]. CountNoise is 0 if the bound does not
	// adapt.
	CountNoise float64
}

// Clipper computes the clip factors of groups. It is not safe for concurrent use.
type Clipper struct {
	parameters    int
	resolved      []ResolvedGroup
	groups        []group
	sensitivities []float64
	begun         bool
	l1            bool
	inverse       float64 // 1/(1 − Relative)
	margin        float64 // of factors
	excluded      int
}

// group is the state of a group that ComputeFactors needs.
type group struct {
	l1       bool
	rule     clip.Rule
	schedule clip.Bound     // nil if the bound adapts
	quantile *clip.Quantile // nil if the bound does not adapt
	adapted  float64        // the current value C of an adaptive bound
	weights  []float64      // 1/s² of each member, 1/s with l1
	absolute float64        // absolute error of the weighted sum of squared norms
	count    float64        // Σ(b_i − ½) since BeginLot; private
}

// NewClipper returns a clipper for the named parameters. Each parameter must belong to
// exactly one group. Accuracy is that of the squared norms.
func NewClipper(names []string, groups []clip.Group, accuracy Accuracy) (*Clipper, error) {
	return newClipper(names, groups, accuracy, false)
}

// NewL1Clipper returns a clipper by ℓ₁ norms: where [Clipper.ComputeFactors] takes squared norms,
// it takes the ℓ₁ norms themselves, and accuracy is theirs. With u_v the gradients of a record,
//
//	c · Σ_v ‖u_v‖₁/s_v ≤ S
//
// The record then changes the ℓ₁ norm of the group's sum by at most S, as Laplace noise requires
// (Dwork, McSherry, Nissim and Smith 2006).
func NewL1Clipper(names []string, groups []clip.Group, accuracy Accuracy) (*Clipper, error) {
	return newClipper(names, groups, accuracy, true)
}

func newClipper(names []string, groups []clip.Group, accuracy Accuracy, l1 bool) (*Clipper, error) {
	if err := accuracy.check(); err != nil {
		return nil, err
	}
	parts, err := resolveGroups(names, groups)
	if err != nil {
		return nil, err
	}
	c := &Clipper{
		parameters:    len(names),
		resolved:      parts,
		groups:        make([]group, len(groups)),
		sensitivities: make([]float64, len(groups)),
		l1:            l1,
		inverse:       1 / (1 - accuracy.Relative),
		margin:        accuracy.factorMargin(),
	}
	for i, g := range groups {
		if c.groups[i], err = newGroup(g, parts[i].Members, accuracy, l1); err != nil {
			return nil, err
		}
		if q := c.groups[i].quantile; q != nil {
			c.resolved[i].CountNoise = q.Noise
		}
	}
	return c, nil
}

func newGroup(g clip.Group, members []Member, accuracy Accuracy, l1 bool) (group, error) {
	made := group{rule: g.Rule, schedule: g.Bound, l1: l1}
	bound := g.Bound
	part, shared := g.Bound.(interface{ Unwrap() clip.Bound }) // of PerParameter
	if shared {
		bound = part.Unwrap()
	}
	switch b := bound.(type) {
	case nil:
		return made, fmt.Errorf("clip: group %q has no bound", g.Name)
	case clip.Schedule:
		if b == nil {
			return made, fmt.Errorf("clip: group %q has no bound", g.Name)
		}
	case *clip.Quantile:
		return made, fmt.Errorf("clip: group %q: give the adaptive bound by value: the Clipper stores its state", g.Name)
	case clip.Quantile:
		if shared {
			return made, fmt.Errorf("clip: group %q shares an adaptive bound, which follows the norms of one group: give each group its own bound", g.Name)
		}
		if err := checkQuantile(b, g.Name); err != nil {
			return made, err
		}
		made.quantile, made.schedule, made.adapted = &b, nil, b.Initial
	}
	if g.Rule == nil {
		made.rule = clip.Threshold{}
	}
	if err := checkRule(g.Name, made.rule, g.Bound); err != nil {
		return made, err
	}
	for _, m := range members {
		weight := 1 / (m.Scale * m.Scale)
		if l1 {
			weight = 1 / m.Scale
		}
		made.weights = append(made.weights, weight)
		made.absolute += weight * accuracy.Absolute
	}
	return made, nil
}

// Join adds a vector of the record to a group, next to its parameters: joint clipping. It returns the
// index of the vector's squared norms in ComputeFactors, after those of the parameters. The squared
// norms must have the accuracy of the Clipper, and no absolute error.
func (c *Clipper) Join(group int, scale float64) int {
	i := c.parameters
	c.parameters++
	c.resolved[group].Members = append(c.resolved[group].Members, Member{i, scale})
	c.groups[group].weights = append(c.groups[group].weights, 1/(scale*scale))
	return i
}

// Groups returns the groups with their parameters, in the order of the factors.
func (c *Clipper) Groups() []ResolvedGroup { return c.resolved }

// BeginLot sets the bounds of a lot. Lots are numbered from 0.
func (c *Clipper) BeginLot(lot int) error {
	c.begun = false
	for i := range c.groups {
		g := &c.groups[i]
		bound := g.adapted
		if g.quantile == nil {
			bound = g.schedule.At(lot)
		}
		if err := checkBound(bound, g.rule); err != nil {
			return fmt.Errorf("clip: group %q, lot %d: %w", c.resolved[i].Name, lot, err)
		}
		c.sensitivities[i] = bound
		g.count = 0
	}
	c.excluded = 0
	c.begun = true
	return nil
}

func checkBound(bound float64, rule clip.Rule) error {
	if math.IsInf(bound, 1) {
		if _, ok := rule.(clip.Threshold); !ok {
			return errors.New("only threshold clipping allows an infinite bound: use a finite one")
		}
		return nil
	}
	if !(bound >= minBound && bound <= maxBound) {
		return setting.Errorf("Mechanism.Clipping.Bound", "%v: give a number from %v to %v", setting.With("Mechanism.Clipping.Bound", bound), minBound, maxBound)
	}
	return nil
}

// Sensitivities returns the sensitivity S of each group in the current lot: the most that
// one record adds to the group's sum, in its scaled norm. BeginLot overwrites the slice.
func (c *Clipper) Sensitivities() []float64 { return c.sensitivities }

// ComputeFactors computes clip factors from the squared norms of a microbatch: sq[v][r] is
// the squared norm of parameter v and record r, factors[g][r] the factor for all parameters
// of group g. Rows from records on are padding and get 0.
//
// A record with a squared norm that is NaN, infinite or negative is excluded from the lot:
// it gets 0 in every group.
func (c *Clipper) ComputeFactors(factors, sq [][]float32, records int) error {
	if err := c.checkShapes(factors, sq, records); err != nil {
		return err
	}
	var bad [blockSize]bool
	for first := 0; first < records; first += blockSize {
		n := min(blockSize, records-first)
		c.excluded += markExcluded(bad[:n], sq, first)
		for g := range c.groups {
			c.computeGroupFactors(g, factors[g][first:first+n], bad[:n], sq, first)
		}
	}
	for g := range factors {
		clear(factors[g][records:])
	}
	return nil
}

// blockSize is the number of records processed at a time, with buffers on the stack.
const blockSize = 128

// markExcluded marks the excluded records from first on and counts them.
func markExcluded(bad []bool, sq [][]float32, first int) int {
	clear(bad)
	for _, row := range sq {
		for r, x := range row[first : first+len(bad)] {
			if !(x >= 0 && x <= math.MaxFloat32) {
				bad[r] = true
			}
		}
	}
	n := 0
	for _, b := range bad {
		if b {
			n++
		}
	}
	return n
}

// computeGroupFactors computes the factors of a group for the records from first on.
func (c *Clipper) computeGroupFactors(i int, factors []float32, bad []bool, sq [][]float32, first int) {
	g, bound := &c.groups[i], c.sensitivities[i]
	var sums [blockSize]float64
	n := len(factors)
	for i, m := range c.resolved[i].Members {
		weight := g.weights[i]
		for r, x := range sq[m.Parameter][first : first+n] {
			sums[r] += weight * float64(x)
		}
	}
	for r := range factors {
		if bad[r] {
			factors[r] = g.exclude()
		} else {
			factors[r] = g.factor(sums[r], bound, c.inverse, c.margin)
		}
	}
}

// factor returns the factor of a record with this weighted sum of squared norms, and counts the
// record for an adaptive bound.
func (g *group) factor(sum, bound, inverse, margin float64) float32 {
	upper := (sum + g.absolute) * inverse
	if !g.l1 {
		upper = math.Sqrt(upper)
	}
	if upper <= bound {
		g.count += 0.5
	} else {
		g.count -= 0.5
	}
	return clipFactor(g.rule, upper, bound, margin)
}

// exclude counts an excluded record for an adaptive bound, and returns its factor.
func (g *group) exclude() float32 {
	g.count -= 0.5
	return 0
}

// ComputeRecordFactors computes the clip factors of one record in float64: squared[g] is the sum
// over the parameters of group g of the squared norm, divided by the squared scale of the
// parameter; factors[g] is the factor for all of them. The relative error of squared must be
// within that of the Clipper's Accuracy.
//
// A record with a number in squared that is NaN, infinite or negative is excluded from the lot: it
// gets 0 in every group.
func (c *Clipper) ComputeRecordFactors(factors []float32, squared []float64) error {
	if !c.begun {
		return errNotBegun
	}
	if len(factors) != len(c.groups) || len(squared) != len(c.groups) {
		return fmt.Errorf("clip: got %d factors and %d squared norms, want one for each of %d groups", len(factors), len(squared), len(c.groups))
	}
	bad := slices.ContainsFunc(squared, func(x float64) bool { return !(x >= 0 && x <= math.MaxFloat64) })
	if bad {
		c.excluded++
	}
	for i := range c.groups {
		if g := &c.groups[i]; bad {
			factors[i] = g.exclude()
		} else {
			factors[i] = g.factor(squared[i], c.sensitivities[i], c.inverse, c.margin)
		}
	}
	return nil
}

var errNotBegun = errors.New("clip: factors were requested before BeginLot, so there is no bound")

func (c *Clipper) checkShapes(factors, sq [][]float32, records int) error {
	if !c.begun {
		return errNotBegun
	}
	if len(factors) != len(c.groups) || len(sq) != c.parameters || records < 0 {
		return fmt.Errorf("clip: got factors for %d groups and norms of %d parameters for %d records, want %d groups and %d parameters", len(factors), len(sq), records, len(c.groups), c.parameters)
	}
	for _, row := range factors {
		if len(row) < records {
			return fmt.Errorf("clip: a factor row has length %d, want at least %d", len(row), records)
		}
	}
	for _, row := range sq {
		if len(row) < records {
			return fmt.Errorf("clip: a row of squared norms has length %d, want at least %d", len(row), records)
		}
	}
	return nil
}

// ExcludedRecords returns the number of records excluded since BeginLot because a norm is
// not finite. The number is private.
func (c *Clipper) ExcludedRecords() int { return c.excluded }

// QuantileCount returns Σ(b_i − ½) over the records of the lot so far, for a group with an
// adaptive bound. The count is private: release it with noise of the group's CountNoise,
// record the query in the ledger, and give the released value to UpdateBound.
func (c *Clipper) QuantileCount(part int) float64 { return c.groups[part].count }

// UpdateBound updates an adaptive bound from a released count. The expected lot size is the
// public q·N. The new bound applies from the next BeginLot.
func (c *Clipper) UpdateBound(part int, noisedCount, expectedLot float64) error {
	if part < 0 || part >= len(c.groups) || c.groups[part].quantile == nil {
		return fmt.Errorf("clip: group %d has no adaptive bound to update", part)
	}
	if !(expectedLot > 0) || math.IsInf(expectedLot, 1) {
		return fmt.Errorf("clip: the expected lot size is %v: use a positive number", expectedLot)
	}
	g := &c.groups[part]
	next := nextBound(g.quantile, g.adapted, noisedCount, expectedLot)
	if err := checkBound(next, g.rule); err != nil || math.IsInf(next, 1) {
		return fmt.Errorf("clip: group %q: the count %v moves the bound from %v to %v, which is out of range: lower the noise of the count or the adaptation rate", c.resolved[part].Name, noisedCount, g.adapted, next)
	}
	g.adapted = next
	return nil
}

// State appends the state for a checkpoint: the current adaptive bounds, one number for each
// group. They depend on released counts only.
func (c *Clipper) State(dst []float64) []float64 {
	for i := range c.groups {
		dst = append(dst, c.groups[i].adapted)
	}
	return dst
}

// Restore sets the state that State returned.
func (c *Clipper) Restore(state []float64) error {
	if len(state) != len(c.groups) {
		return fmt.Errorf("clip: the checkpoint has bounds for %d groups, want %d", len(state), len(c.groups))
	}
	for i, bound := range state {
		if g := &c.groups[i]; g.quantile != nil {
			if !(bound >= minBound && bound <= maxBound) {
				return fmt.Errorf("clip: group %q: the checkpoint has the bound %v, want a number from %v to %v", c.resolved[i].Name, bound, minBound, maxBound)
			}
		} else if bound != 0 {
			return fmt.Errorf("clip: group %q: the checkpoint has an adaptive bound, but the bound of the group is not adaptive", c.resolved[i].Name)
		}
	}
	for i, bound := range state {
		c.groups[i].adapted = bound
	}
	return nil
}
