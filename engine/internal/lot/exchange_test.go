package lot

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/dptrain/dptrain/internal/ranks"
)

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

// All ranks get the values of each part from its rank.
func TestParts_GatherAll(t *testing.T) {
	r, sizes := rand.New(rand.NewPCG(3, 4)), []int{5000, 1, 17, 1, 300, 4}
	for size := 1; size <= 5; size++ {
		for _, piece := range []int{1 << 20, 7, 2500} {
			ends, order := randomEnds(sizes, size, r), r.Perm(len(sizes)-1)
			onRanks(t, size, func(c ranks.Communicator) error {
				p, values := newParts(order, ends, size), make([][]float32, len(sizes))
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
