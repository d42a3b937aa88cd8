// Package pld composes privacy-loss distributions numerically and bounds ε and δ from
// both sides.
//
// It composes one distribution for data with the record against data without it and one
// for the opposite direction, and returns the larger ε or δ. The upper bound is valid for the
// given float64 parameters: the errors of discretisation, blur, truncation, the wrap-around of
// Fourier sums and float64 rounding are each rounded up or charged to δ. The lower bound is
// obtained in the same way from below.
//
// For a few kinds of lots the two bounds are usually within 0.03% of each other, and
// within 0.2% where δ is below 1e-9. They are further apart for schedules, and where
// float64 is too short: at δ below 1e-14 where losses are small and rare, and where ε is
// above 1e5.
//
// # Method
//
// Let L be the privacy loss of one lot under P. For n lots with losses L_1 … L_n,
//
//	δ(ε) = E[(1 − e^(ε − L_1 − … − L_n))⁺]
//
// The losses are independent, so their sum has the product of their characteristic functions, and
// the cost does not depend on how often an event occurs:
//
//	pair P, Q of an event     loss_pair.go, joint_pair.go, component.go
//	  ─▶ points and masses    discretize.go: one estimate that is too large, one that is too small
//	  ─▶ tilted               tilt.go: multiplied by e^(tilt·loss), so that the losses that decide
//	                          about ε are in the centre
//	  ─▶ φ_1(ω)^n_1·φ_2(ω)^n_2·…    characteristic_function.go, bandlimit.go
//	  ─▶ Fourier sums ─▶ δ(ε) from above and below    divergence_bounds.go
//	  ─▶ ε at δ, or a curve of both    pld.go, curve.go; composer.go and computation.go choose
//	                                   tilt, window and number of frequencies
//
// # Rounding
//
// Every charge is a worst case, not an average: one operation has a relative error of at most
// u = 2^-53, charged as roundingUnit; a sum of n terms has n-1 of them; a library function of
// package math is correct to 4u (a test compares them with math/big). Let n lots be composed.
//
//   - Shifts and rates are quotients of the given numbers. They are rounded up
//     (dpevent.DivideUp), so the event dominates that of the exact quotients.
//   - The split of a mass between two points preserves P and Q of a loss l' instead of the true
//     loss l. The points are moved by the bound of |l' - l|, see discretizer.addRoundingError:
//     about 8u·(q·(shift·|x| + shift²) + |l| + w) where q is the probability that the record is in
//     the lot given x, and w the width of a cell. n lots move ε by at most n times this.
//   - The masses have a relative error of at most γ = u·(64 + 8·(x² + (1 + tilt)·|l| + …)), which
//     includes the quadrature (quadraturePanels). δ is multiplied by e^(n·γ).
//   - The characteristic function of one lot has the error bound of multiply: u·(49·32 + 32 +
//     points/32)·min(2, E|ωx|) + 8u·E|ωx|. Its power n has the relative error (1 + t)^n - 1, where t
//     is that bound divided by the modulus.
//   - A term of the Fourier sum of N frequencies has the bound u·(40 + 8j + N +
//     4ω·(|centre| + |ε|) + …), see blurred and delta, and the factor e^(logScale - tilt·ε) that of its exponent.
//   - The probabilities cut off or truncated have that of tail probabilities, u·16·(16 + x²).
//
// Where the composition is not discretised, or a closed form is smaller, ε is that of a closed
// form, rounded up by its own bound (gaussian.EpsilonBounds, MaxLoss, composition.ZCDPEpsilon), or of
// Rényi divergences. The latter are increased by renyiTolerance. This is not a derived bound: their
// quadrature has only been compared with other methods. Nor is the charge for the tails that
// tiltedPair.trimSamples omits: it is twice the sum of the omitted samples, which is a bound where the
// tilted density decreases outwards.
package pld
