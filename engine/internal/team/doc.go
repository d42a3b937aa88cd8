// Package team keeps the ranks of a run in step: they start with equal settings and weights, share one key,
// wait a limited time for one another, and end together.
//
//	start       one key ─▶ equal settings, equal weights
//	each lot    StartLot ─▶ (package lot adds the integers of all) ─▶ EndLot ─▶ Vote: go on, save, or end
//	each 64th   equal weights
//
// All ranks have one key, so all draw the same lot and the same noise. Ranks agree before the sums are used,
// after the ledger has the lot, and before the next lot. An error of one rank is then the error of all, and
// none waits for another.
package team
