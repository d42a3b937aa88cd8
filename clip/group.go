package clip

import "math"

// Group is a set of parameters whose gradients are clipped together: a record moves their
// joint norm by at most the group's bound.
type Group struct {
	Name string

	// Parameters are names of parameters or patterns, in which * matches any characters.
	Parameters []string

	// Scales, one for each entry of Parameters, select joint clipping (McMahan et al.
	// 2019): each gradient is divided by its scale, all are clipped together, and each is
	// multiplied by its scale again. With the typical norms as scales, parameters with
	// small gradients keep their influence. If empty, all scales are 1.
	//
	// The sensitivity is that of the scaled gradients: noise of standard deviation σ for
	// the group means σ·s for a parameter of scale s.
	Scales []float64

	// Bound is S, the sensitivity of the group's sum.
	Bound Bound

	// Rule chooses the factors; nil means [Threshold].
	Rule Rule
}

// Bound is the sensitivity of a group. It must depend on public values only: on the number
// of the lot and, for a [Quantile], on released counts. +Inf means no bound and no privacy.
//
// The names of the types that implement Bound and [Rule], and of their fields, are part of a
// run's fingerprint in checkpoints. Renaming them makes checkpoints unusable.
type Bound interface {
	At(lot int) float64
}

// Constant is the same bound in every lot.
type Constant float64

// At returns the constant.
func (c Constant) At(int) float64 { return float64(c) }

// Schedule is a bound given by a public function of the number of the lot.
type Schedule func(lot int) float64

// At returns the bound of that lot.
func (s Schedule) At(lot int) float64 { return s(lot) }

// Rule proposes the clip factor of a record from the norm of its group. The proposal is
// limited to [0, bound/norm], so no rule can violate the bound.
//
// A Rule must be a pure function: the sensitivity is that of a sum in which the factor of a record
// depends on that record only. If a rule has a state, such as the mean of the norms so far, a
// record changes the factors of others, and the bound does not limit its influence.
// A run calls a rule several times before it starts and refuses one that answers differently. It
// cannot find every state. A Rule must be safe for concurrent use and should not allocate.
type Rule interface {
	Factor(norm, bound float64) float64
}

// Threshold leaves a record within the bound unchanged and scales a longer one to the bound
// (Abadi et al. 2016, "Deep Learning with Differential Privacy", algorithm 1).
type Threshold struct{}

// Factor returns min(1, bound/norm).
func (Threshold) Factor(norm, bound float64) float64 { return min(1, bound/norm) }

// Normalized scales every record to nearly the length of the bound, so bound and learning
// rate need not be tuned separately (Bu et al. 2022, "Automatic Clipping:
// Differentially Private Deep Learning Made Easier and Stronger"). Gamma, the
// stability constant, is positive. It keeps short gradients short; without it training need
// not converge. The paper uses 0.01.
type Normalized struct{ Gamma float64 }

// Factor returns bound/(norm + Gamma).
func (n Normalized) Factor(norm, bound float64) float64 { return bound / (norm + n.Gamma) }

// Flat clips all parameters together, in one group with the name gradient.
func Flat(bound Bound, rule Rule) []Group {
	return []Group{{Name: "gradient", Parameters: []string{"*"}, Bound: bound, Rule: rule}}
}

// PerParameter makes each parameter a group of its own, with the parameter's name. With G
// parameters each group has the bound total/√G, so the joint norm of all is bounded by
// total. The bound total cannot be a [Quantile], which follows the norms of one group.
func PerParameter(names []string, total Bound, rule Rule) []Group {
	groups := make([]Group, len(names))
	share := share{total, 1 / math.Sqrt(float64(len(names)))}
	for i, name := range names {
		groups[i] = Group{Name: name, Parameters: []string{name}, Bound: share, Rule: rule}
	}
	return groups
}

// share is the fraction part of a bound.
type share struct {
	of   Bound
	part float64
}

func (s share) At(lot int) float64 { return s.of.At(lot) * s.part }

// Unwrap returns the whole bound.
func (s share) Unwrap() Bound { return s.of }
