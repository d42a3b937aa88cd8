package lot

import (
	"errors"
	"sync"
	"testing"

	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/ranks"
)

// Contributions of the largest size have exact sums on two ranks, for the largest lot that travels in 32 bits and
// for the next one.
func TestAddSums_AtTheEdgeOf32Bits(t *testing.T) {
	if plan.MaxNarrowRecords != 511 {
		t.Errorf("lots of at most %d records travel in 32 bits, want 511", plan.MaxNarrowRecords)
	}
	for _, records := range []int{plan.MaxNarrowRecords, plan.MaxNarrowRecords + 1} {
		var failed [2]error
		var done sync.WaitGroup
		for rank, c := range ranks.NewGroup(2) {
			recorder := &narrowRecorder{Communicator: c}
			l := &Lot{Parts: Parts{Ranks: recorder}}
			l.ranks.counts, l.ranks.narrow = []int{200, records - 200}, make([]int32, 2)
			own := int64([]int{200, records - 200}[rank]) * plan.Bound
			done.Go(func() {
				sums := []int64{own, -own}
				failed[rank] = l.addSums(sums)
				if want := int64(records) * plan.Bound; sums[0] != want || sums[1] != -want {
					failed[rank] = errors.Join(failed[rank], errors.New("a sum is not exact"))
				}
				if recorder.narrow != (records <= plan.MaxNarrowRecords) {
					failed[rank] = errors.Join(failed[rank], errors.New("the sums travel in the other size"))
				}
			})
		}
		done.Wait()
		if err := errors.Join(failed[:]...); err != nil {
			t.Errorf("%d records: %v", records, err)
		}
	}
}

// narrowRecorder notes whether sums travel in 32 bits.
type narrowRecorder struct {
	ranks.Communicator
	narrow bool
}

func (r *narrowRecorder) Sum32(values []int32) error {
	r.narrow = true
	return r.Communicator.Sum32(values)
}
