package lot

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/ranks"
)

// fixedSums are sums that a device has. Only ReadSums is used.
type fixedSums struct {
	plan.PartReleaser
	sums   [][]int64
	failed error
}

func (f *fixedSums) ReadSums(i, from int, dst []int64) error {
	copy(dst, f.sums[i][from:])
	return f.failed
}

// zerosLike returns zeros of the sizes of sums.
func zerosLike(sums [][]int64) [][]int64 {
	zeros := make([][]int64, len(sums))
	for i, s := range sums {
		zeros[i] = make([]int64, len(s))
	}
	return zeros
}

// The sums of a rank's part are exact for the largest contributions of the most records that each width allows,
// for pieces of every size. A lot in which a rank has one more record travels in the next width. A sum has its
// value only when it is reported to be final.
func TestSumExchange_ExactSums(t *testing.T) {
	r, sizes := rand.New(rand.NewPCG(1, 2)), []int{5000, 1, 17, 1, 300, 4}
	for size := 1; size <= 5; size++ {
		for records, width := range map[int]int{1: 4, 511: 4, 512: 5, 130816: 5, 130817: 8, 1 << 30: 8} {
			if got := plan.SumBytes(records); got != width {
				t.Errorf("sums of %d records take %d bytes, want %d", records, got, width)
			}
			ends, of, want := randomEnds(sizes, size, r), make([]fixedSums, size), make([][]int64, len(sizes))
			order := r.Perm(len(sizes) - 1)
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
				p, final := newParts(order, ends, size), of[c.Rank()].sums
				p.cut(piece)
				device, sums := &fixedSums{sums: zerosLike(final)}, zerosLike(final)
				x := newSumExchange(p, c, device, sums)
				for range 2 { // lots
					x.begin(records)
					for n, i := range order[:len(order)-1] {
						copy(device.sums[i], final[i])
						x.setFinal(n + 1)
					}
					last := order[len(order)-1]
					copy(device.sums[last], final[last])
					if err := x.finish(); err != nil {
						return err
					}
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

// exchangeCounter counts the exchanges that are done.
type exchangeCounter struct {
	ranks.Communicator
	done chan struct{}
}

func (e exchangeCounter) OnSeveralHosts() bool { return true }

func (e exchangeCounter) Exchange(receive, send []byte, ends []int) error {
	err := e.Communicator.(ranks.Exchanger).Exchange(receive, send, ends)
	e.done <- struct{}{}
	return err
}

// A piece travels when the sums of its parameters are final on all ranks, before the others are.
func TestSumExchange_BeginsBeforeLastSums(t *testing.T) {
	const size = 3
	of := fixedSums{sums: [][]int64{make([]int64, 12), make([]int64, 6), make([]int64, 12)}}
	ends, order := [][]int{{4, 8, 12}, {2, 4, 6}, {4, 8, 12}}, []int{2, 1, 0}
	onRanks(t, size, func(c ranks.Communicator) error {
		p, counter := newParts(order, ends, size), exchangeCounter{c, make(chan struct{}, 9)}
		p.cut(4)
		if !slices.Equal(p.needs, []int{1, 3, 3}) {
			return fmt.Errorf("pieces of 4 elements need %v parameters", p.needs)
		}
		x := newSumExchange(p, counter, &of, zerosLike(of.sums))
		x.begin(1)
		x.setFinal(1)
		<-counter.done // the first piece
		x.setFinal(2)
		if err := ranks.Agree(c, nil); err != nil { // the second piece would meet this call
			return err
		}
		if len(counter.done) > 0 {
			return errors.New("the second piece travels before its sums are final")
		}
		return x.finish()
	})
}

// A rank that cannot read its sums takes part in the whole exchange, so no rank waits for it.
func TestSumExchange_FailingRankTakesPart(t *testing.T) {
	const size = 3
	ends, broken := [][]int{{4, 8, 12}}, errors.New("the device is lost")
	onRanks(t, size, func(c ranks.Communicator) error {
		p, of := newParts([]int{0}, ends, size), fixedSums{sums: [][]int64{make([]int64, 12)}}
		p.cut(1)
		if c.Rank() == 1 {
			of.failed = broken
		}
		x := newSumExchange(p, c, &of, zerosLike(of.sums))
		x.begin(1)
		if err := ranks.Agree(c, x.finish()); err == nil || err.Error() != "rank 1: the device is lost" {
			return fmt.Errorf("rank %d gets %w", c.Rank(), err)
		}
		return nil
	})
}
