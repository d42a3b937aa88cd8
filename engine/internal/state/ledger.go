package state

import (
	"fmt"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// ReadHistory reads a ledger, which must contain the line that was its last when the checkpoint
// was written.
func ReadHistory(path, head string) (ledger.History, error) {
	contains, err := ledger.ContainsHead(path, head)
	if err != nil {
		return ledger.History{}, fmt.Errorf("%w: ledger: %w: without the ledger the cost of the run is unknown; restore it", ErrDamaged, err)
	}
	if !contains {
		return ledger.History{}, fmt.Errorf("%w: the ledger %s lacks lines that it had when the checkpoint was written, and understates the cost; restore it", ErrDamaged, path)
	}
	return ledger.Read(path)
}

// CountRuns returns the number of processes that wrote to a ledger, which ReadHistory has read.
func CountRuns(name string) uint64 {
	report, _ := ledger.Verify(name) // only its last line may be incomplete
	return uint64(report.Runs)
}

// Reseed returns the seed of a resumption of a seeded run, which draws other numbers than the
// processes before it.
func Reseed(seed, resumption uint64) *uint64 {
	seed += 0x9E3779B97F4A7C15 * resumption
	return &seed
}
