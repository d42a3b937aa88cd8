// Package clip bounds what one record can add to a sum: squared norms in,
// factors and a sensitivity out.
//
// The vectors of a sum (the parameters' gradients) are dealt into groups. For
// each record and group a [Clipper] computes one factor c, and the sum takes
// c·v in place of each vector v of the group.
//
// # What is promised
//
// With u_v the record's true vectors, s_v their scales (1 unless clipping is
// joint) and S the group's sensitivity,
//
//	c · √(Σ_v (‖u_v‖/s_v)²) ≤ S
//
// holds in real arithmetic for the float32 number c that was handed out, for
// every record whatever its data, provided that the squared norms keep the
// promise of [Accuracy]. So adding or removing a record moves the group's sum by
// at most S (by 2S when a record is replaced). A rule for choosing c, a bound
// that changes with the lot or adapts to the data, cannot weaken this: whatever
// they propose is cut to what the inequality allows.
//
// Not promised: that a sum formed in floating point moves by no more than its
// terms do. The roundings of a sum depend on all its terms (Mironov 2012, "On
// significance of the least significant bits for differential privacy";
// Casacuberta et al. 2022, "Widespread underestimation of sensitivity in
// differentially private libraries and how to fix it"). Nor is anything promised of the
// roundings of c·v in float32 where numbers of it are below 2⁻¹²⁶, which are up to 2⁻¹⁵⁰
// each: they are seen where such rows are multiplied by others of 10³⁰ and more.
//
// Groups, separate and joint clipping are those of McMahan et al. 2019, "A
// General Approach to Adding Differential Privacy to Iterative Training
// Procedures", section 3.
package clip
