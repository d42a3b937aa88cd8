package clip

import "math"

// Group is a set of vectors clipped together: no record moves their joint norm
// by more than the group's bound.
type Group struct {
	Name string

	// Parameters are the names of the vectors, or patterns in which * stands for any
	// run of characters.
	Parameters []string

	// Scales, one for each entry of Vectors, make the clipping joint (McMahan et
	// al. 2019): each vector is divided by its scale, the whole is clipped once,
	// and multiplied back. Scales of the vectors' typical norms let small vectors
	// be heard beside large ones. None: all are 1.
	//
	// The sensitivity is that of the scaled vectors: noise of standard deviation σ
	// for the group means σ·s for a vector of scale s.
	Scales []float64

	// Bound is S, the most that a record can move the group's sum.
	Bound Bound

	// Rule chooses factors below the bound. None: [Threshold].
	Rule Rule
}

// Bound gives the sensitivity of a group. It is a function of public things
// alone: the number of the lot and, if it is a [Quantile], released counts.
// +Inf means no bound, and no privacy.
type Bound interface {
	At(lot int) float64
}

// Constant is the same bound in every lot.
type Constant float64

// At is the constant.
func (c Constant) At(int) float64 { return float64(c) }

// Schedule is a bound that is a public function of the lot.
type Schedule func(lot int) float64

// At is the bound of that lot.
func (s Schedule) At(lot int) float64 { return s(lot) }

// Rule proposes the factor of a record whose group has the given norm. The
// proposal is cut to [0, bound/norm], so no rule can break the bound; it must be
// safe for concurrent use and should not allocate.
type Rule interface {
	Factor(norm, bound float64) float64
}

// Threshold leaves a short record as it is and shortens a long one to the bound
// (Abadi et al. 2016, "Deep Learning with Differential Privacy", algorithm 1).
type Threshold struct{}

// Factor is min(1, bound/norm).
func (Threshold) Factor(norm, bound float64) float64 { return min(1, bound/norm) }

// Normalized gives every record nearly the length of the bound, so that bound and
// learning rate are one knob and not two (Bu et al. 2022, "Automatic Clipping:
// Differentially Private Deep Learning Made Easier and Stronger"). Gamma, the
// stability constant, is positive: it lets short gradients stay short, without
// which training need not converge. The paper uses 0.01.
type Normalized struct{ Gamma float64 }

// Factor is bound/(norm + Gamma).
func (n Normalized) Factor(norm, bound float64) float64 { return bound / (norm + n.Gamma) }

// Flat clips all vectors together: one group, called gradient.
func Flat(bound Bound, rule Rule) []Group {
	return []Group{{Name: "gradient", Parameters: []string{"*"}, Bound: bound, Rule: rule}}
}

// PerParameter makes each vector a group of its own, called after it, with the bound
// total/√G for G vectors, so that the whole is still bounded by total. The bound
// total cannot adapt: a [Quantile] follows the norms of one group.
func PerParameter(names []string, total Bound, rule Rule) []Group {
	groups := make([]Group, len(names))
	share := share{total, 1 / math.Sqrt(float64(len(names)))}
	for i, name := range names {
		groups[i] = Group{Name: name, Parameters: []string{name}, Bound: share, Rule: rule}
	}
	return groups
}

// share is a part of a bound.
type share struct {
	of   Bound
	part float64
}

func (s share) At(lot int) float64 { return s.of.At(lot) * s.part }
