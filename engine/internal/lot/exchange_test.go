package lot

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/ranks"
)

// fixedSums are sums that a device has. Only ReadSums is used.
type fixedSums struct {
	plan.PartReleaser
	sums [][]int64
}

func (f fixedSums) ReadSums(i, from int, dst []int64) error {
	copy(dst, f.sums[i][from:])
	return nil
}

// onRanks calls f for each rank of a group.
func onRanks(t *testing.T, size int, f func(c ranks.Communicator) error) {
	t.Helper()
	failed := make([]error, size)
	var done sync.WaitGroup
	for rank, c := range ranks.NewGroup(size) {
		done.Go(func() { failed[rank] = f(c) })
	}
	done.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Error(err)
	}
}

// randomEnds cuts parameters of these sizes into parts of random sizes, also of none. The last parameter is not
// trained.
func randomEnds(sizes []int, size int, r *rand.Rand) [][]int {
	ends := make([][]int, len(sizes))
	for i, n := range sizes {
		ends[i] = make([]int, size)
		if i == len(sizes)-1 {
			continue
		}
		for rank := range size - 1 {
			ends[i][rank] = r.IntN(n + 1)
		}
		ends[i][size-1] = n
		slices.Sort(ends[i])
	}
	return ends
}

// The sums of a rank's part are exact for the largest contributions of the most records that each width allows,
// for pieces of every size. A lot in which a rank has one more record travels in the next width.
func TestParts_ExchangeExactSums(t *testing.T) {
	r, sizes := rand.New(rand.NewPCG(1, 2)), []int{5000, 1, 17, 1, 300, 4}
	for size := 1; size <= 5; size++ {
		for records, width := range map[int]int{1: 4, 511: 4, 512: 5, 130816: 5, 130817: 8, 1 << 30: 8} {
			if got := plan.SumBytes(records); got != width {
				t.Errorf("sums of %d records take %d bytes, want %d", records, got, width)
			}
			ends, of, want := randomEnds(sizes, size, r), make([]fixedSums, size), make([][]int64, len(sizes))
			for i, n := range sizes {
				want[i] = make([]int64, n)
				for rank := range size {
					of[rank].sums = append(of[rank].sums, make([]int64, n))
					for k := range n {
						most := int64(records) * plan.Bound
						of[rank].sums[i][k] = []int64{most, -most, r.Int64N(2*most+1) - most, most - 1, 1 - most, 0, -1}[r.IntN(7)]
						want[i][k] += of[rank].sums[i][k]
					}
				}
			}
			piece := []int{1 << 20, 7, 2500}[r.IntN(3)]
			onRanks(t, size, func(c ranks.Communicator) error {
				p, sums := newParts(ends, size), make([][]int64, len(sizes))
				p.cut(piece)
				for i, n := range sizes {
					sums[i] = make([]int64, n)
				}
				if err := p.exchangeSums(c.(ranks.Exchanger), c.Rank(), records, of[c.Rank()], sums); err != nil {
					return err
				}
				for i := range ends {
					from, to := ranks.PartOf(ends[i], c.Rank())
					if !slices.Equal(sums[i][from:to], want[i][from:to]) {
						return fmt.Errorf("rank %d of %d, %d records in pieces of %d: parameter %d has other sums", c.Rank(), size, records, piece, i)
					}
				}
				return nil
			})
		}
	}
}

// All ranks get the values of each part from its rank.
func TestParts_GatherAll(t *testing.T) {
	r, sizes := rand.New(rand.NewPCG(3, 4)), []int{5000, 1, 17, 1, 300, 4}
	for size := 1; size <= 5; size++ {
		for _, piece := range []int{1 << 20, 7, 2500} {
			ends := randomEnds(sizes, size, r)
			onRanks(t, size, func(c ranks.Communicator) error {
				p, values := newParts(ends, size), make([][]float32, len(sizes))
				p.cut(piece)
				for i, n := range sizes {
					values[i] = make([]float32, n)
					from, to := ranks.PartOf(ends[i], c.Rank())
					for k := from; k < to; k++ {
						values[i][k] = float32(1000*i + k)
					}
				}
				if err := p.gather(c, values); err != nil {
					return err
				}
				for i, of := range values[:len(values)-1] {
					for k, v := range of {
						if v != float32(1000*i+k) {
							return fmt.Errorf("rank %d of %d: value %d of parameter %d is %v", c.Rank(), size, k, i, v)
						}
					}
				}
				return nil
			})
		}
	}
}
