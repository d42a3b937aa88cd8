package clip

// Formula is what [Clipper.ComputeFactors] computes, as numbers, for a device that
// computes the same where the squared norms are. The promise of the package
// holds for factors that follow it in float64 arithmetic:
//
//	upper = √((Σ_v weight·sq_v + absolute)·inverse)
//	c     = min(rule(upper, S), S·margin/upper), 0 below smallest
//
// and a record with a squared norm that is NaN, infinite or negative gets 0 in
// every group. The zero Formula, of no groups, gives every record the factor 1
// and promises nothing: it is how a run that is not private is trained.
type Formula struct {
	Groups   []GroupFormula
	Inverse  float64
	Margin   float64
	Smallest float64
}

// GroupFormula is the part of a [Formula] that belongs to one group.
type GroupFormula struct {
	Parameters []int
	Weights    []float64 // 1/s² of each vector
	Absolute   float64
	Gamma      float64 // of [Normalized]; negative: the rule is [Threshold]
}

// Formula gives the clipper's formula; ok is false where a rule is one that only
// its own code knows.
func (c *Clipper) Formula() (f Formula, ok bool) {
	f = Formula{Inverse: c.inverse, Margin: roundingMargin, Smallest: minFactor}
	for i, g := range c.groups {
		part := GroupFormula{Weights: g.weights, Absolute: g.absolute, Gamma: -1}
		for _, m := range c.resolved[i].Members {
			part.Parameters = append(part.Parameters, m.Parameter)
		}
		switch r := g.rule.(type) {
		case Threshold:
		case Normalized:
			part.Gamma = r.Gamma
		default:
			return Formula{}, false
		}
		f.Groups = append(f.Groups, part)
	}
	return f, true
}

// SetCounts tells the clipper what a device that follows the formula counted since
// Begin: of so many records, how many took no part, and how many were within the
// bound of each group.
func (c *Clipper) SetCounts(records, refused int, within []int) {
	c.excluded = refused
	for g := range c.groups {
		c.groups[g].count = float64(within[g]) - float64(records)/2
	}
}
