// Package ledger writes and reads the privacy ledger: the append-only file of the sampling events
// and noised queries of a training run. FORMAT.md describes the file.
//
// A [Writer] promises that each lot is on disk before [Writer.Spend] returns. A ledger therefore
// states at least every lot that was released, even after a crash.
//
// # The idea
//
// The cost of a run is a function of what it released about which sample. The ledger keeps exactly
// these facts, one JSON object a line, so that any program can compute the cost again:
//
//	{"ledger":"dptrain", "records":60000, "adjacency":…, "secure":true, …}   header
//	{"spend":1, "lot":{"sampling":{…}, "queries":[{…}]}, "prev":…, "crc":…}  one lot
//	{"spend":2, …}                                                           two equal lots
//	{"return":1, …}                                                          one of them did not run
//	{"resume":2, …}                                                          another process goes on
//	{"end":2, "weights":…, "complete":true, …}                               the run ended
//
// A sync can take longer than a lot. A line may therefore reserve equal lots before they run; the
// lots that do not run are returned. After a crash all reserved lots count as spent, so the ledger
// errs on the safe side:
//
//	spend n, fsync ──▶ lot 1 released … lot k released ──▶ return n−k
//	                       a crash here leaves n ≥ k lots stated
//
// Each line contains the hash of the line before it and a checksum of itself. A changed, removed or
// moved line breaks the chain; a truncated last line is known by its checksum, and counts as the
// most that it can have stated.
//
// # Where each part lives
//
//   - history.go: [History], [Lot], [Sampling], [Query]: what an accountant reads.
//   - writer.go: [Create], [Open], [Writer]; reader.go: [Read], [Verify], [DamageError].
//   - line.go, parser.go, validate.go: one line, stricter than encoding/json, so that two programs
//     never read different costs from it.
//   - chain.go: what may follow what; reader and writer share it.
//   - compare.go: whether several ledgers are copies, forks or separate runs.
package ledger
