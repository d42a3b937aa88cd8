// Package accountant computes the (ε, δ) that the lots of a privacy ledger cost, and
// calibrates noise, sampling rate, steps or δ to a target.
//
// Its only input is a [ledger.History]. It imports no package that trains, clips or adds
// noise, so a bug there cannot change its answer (McMahan et al. 2019, "A General
// Approach to Adding Differential Privacy to Iterative Training Procedures", section 4).
package accountant
