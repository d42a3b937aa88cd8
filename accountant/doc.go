// Package accountant says what a run cost: it keeps the privacy ledger and
// turns a ledger into (ε, δ).
//
// It imports nothing of dptrain but the lock that keeps a ledger to one writer, so
// that no bug in what is trained, or in the mechanism that guards it, can change the
// answer (McMahan et al. 2019, "A General Approach to Adding Differential Privacy to
// Iterative Training Procedures", section 4).
package accountant
