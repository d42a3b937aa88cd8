package sample

import (
	"slices"
	"testing"

	"github.com/dptrain/dptrain/noise"
)

// All 24 orders of four records are equally likely, and all 576 pairs of orders of
// consecutive passes are equally likely.
func TestShuffle_OrdersAreUniform(t *testing.T) {
	const passes = 60000
	s := must(NewShuffle(1, 4, noise.NewSeeded(13)))
	orders, pairs := map[[4]int]float64{}, map[[8]int]float64{}
	var before, now [4]int
	for pass := range uint64(passes) {
		for k := range uint64(4) {
			if err := s.StartLot(4*pass + k); err != nil {
				t.Fatal(err)
			}
			if n, err := s.Next(now[k : k+1]); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		orders[now]++
		if pass%2 == 1 {
			pairs[[8]int(slices.Concat(before[:], now[:]))]++
		}
		before = now
	}
	if len(orders) != 24 || len(pairs) != 576 {
		t.Fatalf("%d orders and %d pairs, want 24 and 576", len(orders), len(pairs))
	}
	uniform(t, "orders", orders, passes)
	uniform(t, "pairs of orders", pairs, passes/2)
}

func TestShuffle_EachRecordOncePerPass(t *testing.T) {
	for _, c := range []struct{ records, lot, lots, last int }{
		{100, 25, 4, 25}, {103, 25, 5, 3}, {10, 10, 1, 10}, {10, 9, 2, 1}, {1, 1, 1, 1},
	} {
		s := must(NewShuffle(c.lot, c.records, noise.NewSeeded(14)))
		if s.lotsPerPass() != c.lots {
			t.Fatalf("%+v: %d lots in a pass", c, s.lotsPerPass())
		}
		for pass := range 3 {
			var all []int
			for k := range c.lots {
				lot := drawLot(t, s, uint64(pass*c.lots+k), 7)
				want := c.lot
				if k == c.lots-1 {
					want = c.last
				}
				if len(lot) != want {
					t.Fatalf("%+v: lot %d has %d records, want %d", c, k, len(lot), want)
				}
				all = append(all, lot...)
			}
			slices.Sort(all)
			for i, r := range all {
				if i != r {
					t.Fatalf("%+v: pass %d has the records %v", c, pass, all)
				}
			}
		}
	}
}
