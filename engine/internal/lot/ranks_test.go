package lot

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/internal/network"
	"github.com/dptrain/dptrain/engine/sample"
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

// firstRecords draws the records 0 … until-1.
type firstRecords struct {
	sample.Sampler
	next, until int
}

func (s *firstRecords) Next(dst []int) (int, error) {
	n := min(len(dst), s.until-s.next)
	for i := range n {
		dst[i] = s.next + i
	}
	s.next += n
	return n, nil
}

// microbatchRecorder is a method that notes the records of each microbatch, and 1000 less for a lot's last one.
type microbatchRecorder struct {
	Method
	lot   *Lot
	added []int
	fails int // the microbatch that fails, from 0, once; -1: none
}

func (m *microbatchRecorder) Add(n int) error {
	if m.fails == len(m.added) {
		m.fails = -1
		return errors.New("a microbatch failed")
	}
	m.added = append(m.added, n)
	return m.lot.addClippedSums()
}

// markingDevice marks the last microbatch.
type markingDevice struct {
	plan.Executable
	plan.PartReleaser
	added *microbatchRecorder
}

func (d *markingDevice) AddClippedSums() error { return nil }

func (d *markingDevice) AddLastClippedSums(func(n int)) error {
	d.added.added[len(d.added.added)-1] -= 1000
	return nil
}

// The sums of the last microbatch of a rank, and of no other one, are reported as they become final. Its records are
// those of the lot. A rank that fails knows the largest number of records all the same.
func TestAddOwnRecords_KnowsLastMicrobatch(t *testing.T) {
	const microbatch = 4
	for drawn := range 30 {
		for _, least := range []int{0, 1, 7} {
			for fails := -1; fails < 3; fails++ {
				onRanks(t, 2, func(c ranks.Communicator) error {
					m := &microbatchRecorder{fails: fails}
					l := &Lot{Parts: Parts{Ranks: c, Index: &load.Index{}, Loader: &load.Loader{Records: make([]int, microbatch)},
						Network: &network.Network{}, Least: least}, Method: m}
					device := &markingDevice{added: m}
					m.lot, l.Network.Executable = l, device
					x := newSumExchange(newParts(nil, nil, 2), c, device, nil)
					l.ranks = ranksMemory{exchange: x, drawn: make([]int, microbatch), positions: make([]int, microbatch), counts: make([]int, 2)}
					err := l.addOwnRecords(&firstRecords{until: drawn})
					var want []int
					for own := (drawn + 1 - c.Rank()) / 2; own > 0 || len(want) < (least+1)/2; own -= min(own, microbatch) {
						want = append(want, min(own, microbatch))
					}
					failed := fails >= 0 && fails < len(want)
					if failed {
						want = want[:fails]
					} else if len(want) > 0 {
						want[len(want)-1] -= 1000
					}
					if (err != nil) != failed || !slices.Equal(m.added, want) || x.records != (drawn+1)/2 {
						return fmt.Errorf("rank %d of %d records, at least %d microbatches: %d, want %d, with at most %d records; %v",
							c.Rank(), drawn, least, m.added, want, x.records, err)
					}
					return x.finish()
				})
			}
		}
	}
}
