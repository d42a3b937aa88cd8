// Package defaults chooses the settings of a private run that the user does not give: the network,
// the lots and the update rule.
//
// Guarantee: every function is pure, and its arguments are public numbers: the number of records
// (or the number that the user declares), the shape of an example, the number of classes, ε and δ.
// A default therefore costs no privacy.
//
// # What decides
//
// Let μ be the privacy parameter of Gaussian DP (Dong, Roth and Su 2022) that (ε, δ) stands for: one
// release with noise of 1/μ times its sensitivity costs exactly (ε, δ). Let T lots use all n records.
// Each of them then needs the noise multiplier √T/μ, so each coordinate of a mean gradient,
// clipped at C, has noise of
//
//	C·√T/(μ·n)
//
// An update that is divided by this noise moves a weight by the learning rate times its
// signal-to-noise ratio. Adam does this without knowing the noise: where noise dominates, the root of
// its second moment is the noise. After T lots of learning rate η, the noise in a weight is
//
//	S = η·√T
//
// whatever C, n and μ are, and the signal in it is S·μ·n/C times the mean of the gradients of the lots. So
//
//   - more lots cost no accuracy, if η = S/√T. They reach further, because the largest distance
//     is η·T = S·√T, and they cost time;
//   - lots of all records are best for a given T, because the noise of smaller lots falls more slowly
//     than their rate; smaller lots are for large data, where the noise is small anyway;
//   - S is the scale of the weights. An example whose features, with the bias, have the norm B
//     gets outputs with noise of S·B. Columns are scaled to [-1, 1] and a word is one unit
//     vector, so B is at most √(columns + 1).
//
// For K outputs the ratio
//
//	ρ = μ·n / (B·√K)
//
// measures how well one step is known. It decides the clip bound and the network: with a small ρ all
// gradients are clipped to nearly the same norm, which makes the sum as large as its sensitivity
// allows but biases it; with a large ρ nothing is clipped that does not exceed the first gradient,
// whose norm is at most B·√(1-1/K) for a linear classifier that starts at 0, and a hidden layer pays.
//
// docs/defaults.md has the constants, with the measurements that they were fitted on and those that
// they were not fitted on. bench/tables repeats them.
package defaults
