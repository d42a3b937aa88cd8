// Package account states in the ledger what a run is about to release, and computes what it cost.
//
//	Account.SpendLot, SpendQuery ──▶ ledger line on disk ──▶ only then the release
//	Meter ──▶ ε so far, and how many lots a limit on ε allows
//	Filter ──▶ admits lots whose noise is chosen from releases, one by one
//
// The number of lots that a [Meter] allows is fixed before the first lot, so a stop there does not depend on
// the data. A [Filter] enforces the limit where the noise of a lot depends on earlier releases.
package account
