// Package projectbudget keeps a budget (ε, δ) that several runs on the same people draw from.
//
// Guarantee: let the budget be (E, D), and let run i draw (ε_i, δ_i) before it releases anything.
// Then all runs together are (E, D)-differentially private, also if the settings of a run, its
// draw included, depend on what earlier runs released. The ε_i and the δ_i are added, and basic
// composition with a stopping rule on these sums holds for adaptively chosen costs (Rogers, Roth, Ullman
// and Vadhan 2016, "Privacy Odometers and Filters"). It assumes that each run spends at most what
// it drew, that the file lists all runs, and that all have the unit of privacy and the adjacency
// that the first one states.
//
// The file has a JSON object on each line and is only appended to. A draw is on disk before a
// release of its run. After a crash the draw counts in full. No line lowers what a run costs below its
// guarantee: a draw is never lowered, and a settlement is at least the cost of each plan with which the
// run drew, because releases may have decided a smaller plan.
//
// A budget has an identity, which the ledgers of its runs name, so that no run continues with another
// budget. The file states where it is: a copy is refused while the budget is in its place. A draw
// contains the identifier of the process that drew, which the ledger of an earlier copy of the run
// lacks.
package projectbudget
