// Package ledger writes and reads the privacy ledger: the append-only file of the
// sampling events and noised queries of a training run. FORMAT.md describes the file.
//
// A [Writer] promises that each lot is on disk before [Writer.Spend] returns. A ledger
// therefore states at least every lot that was released, even after a crash.
package ledger
