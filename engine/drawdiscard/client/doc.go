// Package client contributes to models that a server trains by draw and discard, and accounts for
// what the contributions cost.
//
// # Guarantee
//
// [Account] states every contribution in a privacy ledger on disk before anything that depends on
// the records leaves the process, and refuses what the budget does not cover. So all returns
// together, to any servers and models, satisfy the budget's (ε, δ) at the level that the ledger
// names, for any two data sets of the client (local differential privacy), under the assumptions of
// [drawdiscard.Mechanism]. A crash, a lost connection or a refused return can only waste budget.
//
// What a server sees besides the returned weights (that and when a client contributes, its address,
// the time that a step takes) is not covered.
package client
