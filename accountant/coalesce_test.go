package accountant

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCoalesceDominates compares, at many rates and shifts, how many events tell at
// least as much: as many as before or more when rounded up, no more when down.
func TestCoalesceDominates(t *testing.T) {
	const events = 3000
	r := rand.New(rand.NewPCG(21, 22))
	for _, c := range [][2]int{{1, 60}, {5, 60}, {40, 60}, {events, 60}, {14, 12}} {
		rates, limit := c[0], c[1]
		var before []counted
		for i := range events {
			rate := .001 * (1 + float64(i%rates)/float64(rates))
			before = append(before, counted{event{rate: rate, gaussian: math.Exp(r.NormFloat64())}, 1 + r.IntN(3)})
		}
		others := []counted{{event{rate: .5, laplace: []float64{1}}, 7}, {event{rate: .5, laplace: []float64{2}}, 5}} // which are left as they are
		for _, up := range []bool{true, false} {
			list := coalesce(append(slices.Clone(others), before...), limit+2, up)
			for _, other := range others {
				if !slices.ContainsFunc(list, func(e counted) bool { return slices.Equal(e.laplace, other.laplace) && e.count == other.count }) {
					t.Fatalf("%+v was lost", other)
				}
			}
		}
		upper, lower := coalesce(before, limit, true), coalesce(before, limit, false)
		if len(upper) > limit || len(lower) > limit {
			t.Fatalf("%d and %d events of at most %d", len(upper), len(lower), limit)
		}
		atLeast := func(list []counted, rate, shift float64) (count int) {
			for _, e := range list {
				if e.rate >= rate && e.gaussian >= shift {
					count += e.count
				}
			}
			return count
		}
		if all := atLeast(before, 0, 0); atLeast(upper, 0, 0) != all || atLeast(lower, 0, 0) != all {
			t.Fatal("lots were lost")
		}
		for _, e := range before[:300] {
			was := atLeast(before, e.rate, e.gaussian)
			if up, down := atLeast(upper, e.rate, e.gaussian), atLeast(lower, e.rate, e.gaussian); up < was || down > was {
				t.Fatalf("of %d events above rate %v shift %v the upper has %d, the lower %d", was, e.rate, e.gaussian, up, down)
			}
		}
	}
}

// TestEqualButForRounding: shifts that differ by rounding are one event, that of the largest.
func TestEqualButForRounding(t *testing.T) {
	shifts := []float64{.7, math.Nextafter(.7, 1)}
	for range 2 {
		all := tally{index: map[eventKey]int{}}
		for _, s := range shifts {
			all.add(event{rate: .1, gaussian: s}, 2)
		}
		all.add(event{rate: .1, gaussian: .7001}, 1)
		if len(all.events) != 2 || all.events[0].count != 4 || all.events[0].gaussian != math.Nextafter(.7, 1) {
			t.Errorf("of %v: %+v", shifts, all.events)
		}
		shifts[0], shifts[1] = shifts[1], shifts[0]
	}
}
