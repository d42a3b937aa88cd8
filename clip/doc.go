// Package clip is what a caller says about the contribution of one record to a sum: which parameters
// are clipped together, to which bound, and by which rule.
//
// The gradients of the parameters are divided into groups. For each record and [Group] a run computes
// one clip factor c by the group's [Rule] and [Bound], and the sum uses c·v in place of the gradient v
// of each parameter of the group.
//
//	groups := []clip.Group{
//		{Name: "hidden", Parameters: []string{"hidden*"}, Bound: clip.Constant(1.5)},
//		{Name: "last", Parameters: []string{"last*"}, Bound: clip.Constant(0.5), Rule: clip.Normalized{Gamma: 0.01}},
//	}
//
// # Guarantee
//
// With u_v the true gradients of the record, s_v their scales (1 unless clipping is
// joint) and S the group's sensitivity,
//
//	c · √(Σ_v (‖u_v‖/s_v)²) ≤ S
//
// holds in real arithmetic for the returned float32 factor c and for every record, provided
// that the squared norms are as accurate as the device states (internal/clipping). So adding or removing a
// record moves the group's sum by at most S, and replacing a record by at most 2S. Neither
// a rule for choosing c nor a bound that changes with the lot or adapts to the data weakens
// this: the factor is limited to what the inequality allows.
//
// With exact arithmetic (see package engine), c only has to make a contribution about short enough:
// the contribution is then rounded to integers, whose norm is checked, and the guarantee does not
// depend on this package. With floating-point sums it does, as follows.
//
// The guarantee does not cover the roundings of a floating-point sum, which depend on all
// its terms, so the sum may move by more than its terms do (Mironov 2012, "On
// significance of the least significant bits for differential privacy";
// Casacuberta et al. 2022, "Widespread underestimation of sensitivity in
// differentially private libraries and how to fix it"). It also does not cover the float32
// roundings of elements of c·v below 2⁻¹²⁶, up to 2⁻¹⁵⁰ each. They matter only if such
// rows are multiplied by rows of 10³⁰ and more.
//
// Groups, separate and joint clipping are those of McMahan et al. 2019, "A
// General Approach to Adding Differential Privacy to Iterative Training
// Procedures", section 3.
package clip
